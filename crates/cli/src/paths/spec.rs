//! `--path IFACE|LOCAL_IP|auto[@SERVER:PORT][,congestion=NAME][,backup][,cost=N]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ctcp::PathOptions;
use ctcp_congestion::resolved_name;
use ctcp_proxy::target::Target;

/// Longest name of an interface, bytes.
const NAME_LEN_MAX: usize = 15;

/// Where a path begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Every interface by which the server can be reached, those to come, too.
    Auto,
    /// The interface of this name.
    Interface(String),
    /// The interface that has this address, from there.
    Address(IpAddr),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Interface(name) => f.write_str(name),
            Self::Address(ip) => ip.fmt(f),
        }
    }
}

/// A path as the user wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathSpec {
    pub(crate) place: Place,
    /// Where it leads; none: to the server's address.
    pub(crate) server: Option<Target>,
    pub(crate) options: PathOptions,
}

impl fmt::Display for PathSpec {
    /// As messages name it: what tells it from others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "{}@{server}", self.place),
            None => self.place.fmt(f),
        }
    }
}

impl FromStr for PathSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let ends = parts.next().unwrap_or_default();
        let (place, server) = match ends.split_once('@') {
            Some((place, server)) => {
                let server = server.parse::<Target>();
                (place, Some(server.map_err(|error| error.to_string())?))
            }
            None => (ends, None),
        };
        let mut options = PathOptions::default();
        for part in parts {
            set_option(&mut options, part)?;
        }
        Ok(Self {
            place: parse_place(place)?,
            server,
            options,
        })
    }
}

fn parse_place(text: &str) -> Result<Place, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        if ip.is_unspecified() || ip.is_multicast() {
            return Err(format!(
                "no path begins at {ip}: name an interface or one of its addresses"
            ));
        }
        return Ok(Place::Address(ip));
    }
    let is_name = !text.is_empty()
        && text.len() <= NAME_LEN_MAX
        && !text.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control());
    match text {
        "auto" => Ok(Place::Auto),
        name if is_name => Ok(Place::Interface(name.to_owned())),
        _ => Err(format!(
            "`{text}` is neither an interface nor an address: write wlan0, 192.168.1.5, or auto"
        )),
    }
}

fn set_option(options: &mut PathOptions, part: &str) -> Result<(), String> {
    match part.split_once('=').unwrap_or((part, "")) {
        ("backup", "") => options.is_backup = true,
        ("congestion", name) => {
            resolved_name(name).map_err(|error| error.to_string())?;
            options.congestion = Some(name.to_owned());
        }
        ("cost", number) => {
            options.cost = number
                .parse()
                .map_err(|_| format!("`{part}`: a cost is 0 to 255, in hundredths of a second"))?;
        }
        _ => {
            return Err(format!(
                "`{part}` is no option of a path: there are congestion=NAME, backup and cost=N"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PathSpec {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_path_is_an_interface_or_an_address_and_options() {
        let plain = parse("wlan0");
        assert_eq!(plain.place, Place::Interface("wlan0".into()));
        assert_eq!(
            (plain.server, plain.options),
            (None, PathOptions::default())
        );
        let full = parse("10.0.0.2@example.com:4500,congestion=cc14,backup,cost=25");
        assert_eq!(full.to_string(), "10.0.0.2@example.com:4500");
        assert_eq!(
            full.options,
            PathOptions {
                is_backup: true,
                cost: 25,
                congestion: Some("cc14".into())
            }
        );
        for text in ["fd00::2@[fd00::1]:4500", "[fd00::2]@[fd00::1]:4500"] {
            assert_eq!(
                parse(text).place,
                Place::Address("fd00::2".parse().unwrap())
            );
            assert_eq!(parse(text).to_string(), "fd00::2@[fd00::1]:4500");
        }
        assert_eq!(parse("auto,cost=5").place, Place::Auto);
    }

    #[test]
    fn what_is_none_says_what_would_be() {
        for (text, part) in [
            ("", "wlan0"),
            ("a-name-longer-than-any", "neither an interface"),
            ("wlan0@server", "HOST:PORT"),
            ("wlan0,fast", "congestion=NAME"),
            ("wlan0,cost=256", "0 to 255"),
            ("wlan0,congestion=carrierpigeon", "carrierpigeon"),
            ("0.0.0.0", "no path begins at 0.0.0.0"),
        ] {
            let error = text.parse::<PathSpec>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
