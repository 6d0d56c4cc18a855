//! What the targets with connections share.

use std::sync::OnceLock;

use ctcp_proto::crypto::{Refusal, SecretRandom};
use ctcp_proto::stream::Side;
use ctcp_proto::{
    Authorize, Connection, Decision, Identity, MtuMode, PublicKey, Redundancy, TransportConfig,
};
use ctcp_units::{Duration, Instant};

use crate::{Input, streams};

/// Static keys, the same in every run: the server's, an allowed client's and a
/// stranger's.
pub(crate) struct Keys {
    pub(crate) server: Identity,
    pub(crate) friend: Identity,
    pub(crate) stranger: Identity,
}

pub(crate) fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let mut random = SecretRandom::from_seed([7; 32]);
        Keys {
            server: Identity::generate(&mut random),
            friend: Identity::generate(&mut random),
            stranger: Identity::generate(&mut random),
        }
    })
}

/// Lets in the friend.
pub(crate) struct OnlyFriend;

impl Authorize for OnlyFriend {
    fn authorize(&mut self, client: &PublicKey, _invite: &[u8], _wall_nanos: u64) -> Decision {
        if client == keys().friend.public() {
            Decision::Allow
        } else {
            Decision::Refuse(Refusal::NotAllowed)
        }
    }
}

/// Settings whose limits operations can reach.
pub(crate) fn transport(input: &mut Input<'_>) -> TransportConfig {
    let choice = input.u8();
    TransportConfig {
        congestion: ["cc14", "reno"][usize::from(choice & 1)].to_owned(),
        redundancy: [Redundancy::Cc14, Redundancy::Mp12, Redundancy::None]
            [usize::from(choice >> 1 & 3) % 3],
        mtu: match choice >> 3 & 3 {
            0 | 1 => MtuMode::Probed { ceiling: 1472 },
            2 => MtuMode::Fixed(1200),
            _ => MtuMode::Probed { ceiling: 1300 },
        },
        block_symbols: 1 + input.u8() % 64,
        blocks_max: 1 + u64::from(input.u8()),
        window_symbols: 64 << (choice >> 5),
        streams: streams::config(input, Side::Client),
        idle_timeout: Duration::from_secs(30),
        ..TransportConfig::default()
    }
}

/// Calls the connection for every deadline up to `until`, and lets `poll` take
/// what that brings. Deadlines must move on.
pub(crate) fn pass_time(
    connection: &mut Connection,
    until: Instant,
    mut poll: impl FnMut(&mut Connection, Instant),
) {
    let mut last = Instant::EPOCH;
    let mut repeats = 0;
    while let Some(due) = connection.poll_timeout().filter(|due| *due <= until) {
        let now = due.max(last);
        repeats = if now == last { repeats + 1 } else { 0 };
        assert!(repeats < 50, "a deadline does not move on: {due}");
        last = now;
        connection.handle_timeout(now);
        poll(connection, now);
    }
}
