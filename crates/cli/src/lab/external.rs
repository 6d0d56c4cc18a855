//! `--external`: somebody else's tunnel as one more series.

use std::str::FromStr;

use ctcp_lab::Point;
use ctcp_lab::point::System;

/// `NAME=SERVER COMMAND ;; CLIENT COMMAND`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct External {
    name: String,
    server_command: String,
    client_command: String,
}

impl FromStr for External {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "`{text}`: write NAME=SERVER COMMAND ;; CLIENT COMMAND, where {{server}} is the \
                 server's address and {{port}} the SOCKS5 port that the client shall offer"
            )
        };
        let (name, commands) = text.split_once('=').ok_or_else(refuse)?;
        let (server, client) = commands.split_once(";;").ok_or_else(refuse)?;
        let [name, server, client] = [name, server, client].map(|part| part.trim().to_owned());
        if name.is_empty() || server.is_empty() || client.is_empty() {
            return Err(refuse());
        }
        Ok(Self {
            name,
            server_command: server,
            client_command: client,
        })
    }
}

impl External {
    /// The points of the first series that runs CTCP, with these programs in its
    /// place; none if the experiment has no such series.
    pub(crate) fn points(&self, points: &[Point]) -> Vec<Point> {
        let has_ctcp = |point: &&Point| {
            let is_ctcp = |system: &System| matches!(system, System::Ctcp { .. });
            point.flows.iter().any(|flow| is_ctcp(&flow.system))
        };
        let Some(model) = points.iter().find(has_ctcp) else {
            return vec![];
        };
        let its = points.iter().filter(|point| {
            (&point.experiment, &point.series) == (&model.experiment, &model.series)
        });
        its.map(|point| self.in_place_of_ctcp(point)).collect()
    }

    fn in_place_of_ctcp(&self, point: &Point) -> Point {
        let mut point = point.clone();
        point.series.clone_from(&self.name);
        for flow in &mut point.flows {
            if matches!(flow.system, System::Ctcp { .. }) {
                flow.system = System::External {
                    server_command: self.server_command.clone(),
                    client_command: self.client_command.clone(),
                };
            }
        }
        point
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_lab::{Recipe, Scale};

    #[test]
    fn commands_are_told_from_the_name_and_from_one_another() {
        let external: External = "tunnel = t -s {server}; echo a=b ;; t -c {port}"
            .parse()
            .expect("well formed");
        assert_eq!(external.name, "tunnel");
        assert_eq!(external.server_command, "t -s {server}; echo a=b");
        assert_eq!(external.client_command, "t -c {port}");
        for text in ["", "name", "name=server", "=a;;b", "n=;;b", "n=a;;"] {
            let error = text.parse::<External>().expect_err(text);
            assert!(error.contains("{port}"), "{error}");
        }
    }

    #[test]
    fn an_external_system_takes_the_place_of_ctcp() {
        let recipe = Recipe::by_id("cc14-fig2a").expect("embedded");
        let points = recipe.points(Scale::Quick, 1).expect("possible");
        let external: External = "x=a;;b".parse().expect("well formed");
        let added = external.points(&points);
        assert_eq!(added.len(), 4, "one for each loss");
        for point in &added {
            assert_eq!(point.series, "x");
            let system = &point.flows[0].system;
            assert!(matches!(system, System::External { .. }), "{system:?}");
        }
    }
}
