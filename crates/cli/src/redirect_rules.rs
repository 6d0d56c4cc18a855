//! `ctcp redirect-rules`: the rules of nftables that lead TCP connections to
//! `ctcp client --redirect`.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use clap::Args;

use crate::client::DEFAULT_REDIRECT;
use crate::failure::Failure;
use crate::output::print_line;

/// Longest name of an interface that Linux knows.
const INTERFACE_LEN_MAX: usize = 15;

/// Destinations that stay as they are: this network's own, and those of no single
/// host ([RFC6890]).
const KEPT_V4: &str = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, \
                       172.16.0.0/12, 192.168.0.0/16, 224.0.0.0/3";
const KEPT_V6: &str = "::/127, fc00::/7, fe80::/10, ff00::/8";

/// Arguments of `ctcp redirect-rules`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RulesArgs {
    /// Where `ctcp client --redirect` listens
    #[arg(long, value_name = "ADDR:PORT", env = "CTCP_REDIRECT",
          default_value_t = DEFAULT_REDIRECT)]
    redirect: SocketAddr,
    /// Only connections that come in by this interface, such as lan0; may be
    /// repeated [default: all that this machine forwards]
    #[arg(long, value_name = "IFACE", value_delimiter = ',', value_parser = interface)]
    from: Vec<String>,
    /// This machine's own connections, too
    #[arg(long)]
    local: bool,
    /// Private destinations, too: the far side's network is to be reached
    #[arg(long)]
    private: bool,
}

/// Names stand in quotes among the rules; none may end them.
fn interface(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_graphic() && !"\"\\/".contains(c);
    if (1..=INTERFACE_LEN_MAX).contains(&text.len()) && text.chars().all(is_good) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is no interface's name; `ip link` lists them"
    ))
}

/// Prints the rules.
pub(crate) fn run(args: &RulesArgs) -> Result<(), Failure> {
    print_line(rules(args)?.trim_end());
    Ok(())
}

fn rules(args: &RulesArgs) -> Result<String, Failure> {
    let RulesArgs { redirect, .. } = args;
    let is_loopback = redirect.ip().is_loopback();
    if redirect.port() == 0 {
        return Err(Failure::usage(format!(
            "--redirect {redirect}: rules need the port; give the client and this command the \
             same, such as {DEFAULT_REDIRECT}"
        )));
    }
    if is_loopback && !args.local {
        return Err(Failure::usage(format!(
            "--redirect {redirect} is reached by this machine's own connections alone: add \
             --local, or let the client listen on {DEFAULT_REDIRECT} for a network"
        )));
    }
    let mut out = format!(
        "# TCP to `ctcp client --redirect {redirect}`.\n\
         # Set: ctcp redirect-rules … | nft -f -    Remove: nft delete table inet ctcp\n\
         table inet ctcp\n\
         delete table inet ctcp\n\
         table inet ctcp {{\n"
    );
    if !is_loopback {
        let interfaces: Vec<String> = args.from.iter().map(|name| format!("\"{name}\"")).collect();
        let from = match &interfaces[..] {
            [] => String::new(),
            names => format!("iifname != {{ {} }} return", names.join(", ")),
        };
        chain(&mut out, args, "prerouting", "dstnat", &from);
    }
    if args.local {
        chain(&mut out, args, "output", "-100", "");
    }
    out.push_str("}\n");
    Ok(out)
}

/// One chain: what stays as it is returns, the rest is redirected.
fn chain(out: &mut String, args: &RulesArgs, hook: &str, priority: &str, first: &str) {
    let (ip, port) = (args.redirect.ip(), args.redirect.port());
    let to = match ip {
        ip if ip.is_unspecified() || ip.is_loopback() => format!("redirect to :{port}"),
        IpAddr::V4(ip) => format!("dnat ip to {ip}:{port}"),
        IpAddr::V6(ip) => format!("dnat ip6 to [{ip}]:{port}"),
    };
    let mut lines = vec![
        format!("type nat hook {hook} priority {priority}; policy accept;"),
        first.to_owned(),
        "fib daddr type { local, broadcast, multicast } return".to_owned(),
    ];
    if !args.private {
        lines.push(format!("ip daddr {{ {KEPT_V4} }} return"));
        lines.push(format!("ip6 daddr {{ {KEPT_V6} }} return"));
    }
    // A listener on [::] takes both families.
    if ip.is_ipv4() || ip.is_unspecified() {
        lines.push(format!("meta nfproto ipv4 meta l4proto tcp {to}"));
    }
    if ip.is_ipv6() {
        lines.push(format!("meta nfproto ipv6 meta l4proto tcp {to}"));
    }
    let _ = writeln!(out, "    chain {hook} {{");
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "        {line}");
    }
    out.push_str("    }\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: RulesArgs,
    }

    fn rules_of(words: &[&str]) -> Result<String, String> {
        let words = ["ctcp"].iter().chain(words);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        rules(&cli.args).map_err(|failure| failure.message)
    }

    #[test]
    fn a_network_is_redirected_and_its_own_addresses_are_not() {
        let text = rules_of(&["--redirect", "[::]:1081", "--from", "lan0,lan1"]).expect("good");
        assert!(text.contains("chain prerouting"), "{text}");
        assert!(
            text.contains("iifname != { \"lan0\", \"lan1\" } return"),
            "{text}"
        );
        assert!(text.contains("meta nfproto ipv4 meta l4proto tcp redirect to :1081"));
        assert!(text.contains("meta nfproto ipv6 meta l4proto tcp redirect to :1081"));
        assert!(text.contains("192.168.0.0/16"));
        assert!(!text.contains("chain output"), "{text}");
    }

    #[test]
    fn a_listener_of_one_address_gets_what_it_can_take() {
        let text = rules_of(&["--redirect", "10.0.0.1:99", "--local", "--private"]).expect("good");
        assert!(text.contains("meta nfproto ipv4 meta l4proto tcp dnat ip to 10.0.0.1:99"));
        assert!(
            !text.contains("nfproto ipv6") && !text.contains("192.168"),
            "{text}"
        );
        assert!(text.contains("chain output") && text.contains("chain prerouting"));
        let text = rules_of(&["--redirect", "[fd00::1]:99"]).expect("good");
        assert!(text.contains("meta nfproto ipv6 meta l4proto tcp dnat ip6 to [fd00::1]:99"));
        assert!(!text.contains("nfproto ipv4"), "{text}");
        let text = rules_of(&["--redirect", "127.0.0.1:99", "--local"]).expect("good");
        assert!(
            !text.contains("prerouting") && text.contains("redirect to :99"),
            "{text}"
        );
    }

    #[test]
    fn what_makes_no_rules_is_said_with_a_remedy() {
        for (words, remedy) in [
            (&["--redirect", "127.0.0.1:99"][..], "--local"),
            (&["--redirect", "[::]:0"], "port"),
            (&["--from", "a\" drop"], "ip link"),
            (&["--from", "sixteen-letters0"], "ip link"),
        ] {
            let error = rules_of(words).expect_err("refused");
            assert!(error.contains(remedy), "{error}");
        }
    }
}
