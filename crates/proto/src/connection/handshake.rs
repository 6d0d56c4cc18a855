//! The beginning of a connection: a client's hellos, a server's acceptance.

use std::net::SocketAddr;
use std::sync::Arc;

use ctcp_units::{Duration, Instant, PathId, millis, seconds};

use super::{Connection, ConnectionError, Event, LocalIds, Phase, Start};
use crate::Transmit;
use crate::config::TransportConfig;
use crate::crypto::{
    ClientAccepted, ClientConfig, ClientHandshake, ClientProgress, Identity, Keys, PublicKey,
    Refusal, SecretRandom,
};
use crate::path::Control;
use crate::stream::Side;
use crate::wire::{ConnectionId, TransportParams};

/// Pause before the hello is sent again; it doubles up to [`HELLO_PAUSE_MAX`].
const HELLO_PAUSE: Duration = millis(250);
const HELLO_PAUSE_MAX: Duration = millis(1000);
/// A hello so often sent may be refused for its timestamp, if another process
/// with the same key said hello in between: the next one is made anew.
const HELLOS_ALIKE: u32 = 4;
/// A clock that was set back, or another process with the same key, is answered
/// so often by a timestamp beyond the one the server knows.
const STALE_RETRIES: u32 = 3;
/// Time a client has to show that it received the server's answer.
pub(super) const PROOF_PATIENCE: Duration = seconds(10);

/// A client that waits for an answer.
#[derive(Debug)]
pub(crate) struct ClientHello {
    identity: Arc<Identity>,
    server: PublicKey,
    invite: Vec<u8>,
    has_aes: bool,
    local_id: ConnectionId,
    /// Wall clock, nanoseconds, at `started`.
    wall_nanos: u64,
    started: Instant,
    give_up_at: Instant,
    handshake: ClientHandshake,
    /// What the timestamps of further hellos must exceed.
    timestamp_floor: u64,
    /// Refusals for a timestamp that were answered with a later one.
    stale_count: u32,
    due: Instant,
    pause: Duration,
    sent: u32,
}

/// What a client needs to say hello.
pub(crate) struct HelloSetup<'a> {
    pub(crate) identity: Arc<Identity>,
    pub(crate) server: PublicKey,
    pub(crate) invite: &'a [u8],
    pub(crate) has_aes: bool,
    pub(crate) wall_nanos: u64,
}

impl ClientHello {
    fn say(
        &self,
        now: Instant,
        params: &[u8],
        random: &mut SecretRandom,
    ) -> Option<ClientHandshake> {
        let elapsed = (now - self.started).as_nanos() as u64;
        let wall_nanos = self.wall_nanos.saturating_add(elapsed);
        ClientHandshake::new(
            &ClientConfig {
                server: &self.server,
                identity: &self.identity,
                connection_id: self.local_id.0,
                timestamp: wall_nanos.max(self.timestamp_floor),
                has_aes: self.has_aes,
                params,
                invite: &self.invite,
            },
            random,
        )
        .ok()
    }

    /// When the next hello is due or patience ends.
    pub(super) fn deadline(&self) -> Instant {
        self.due.min(self.give_up_at)
    }
}

impl Connection {
    /// A client's connection, its hello ready to be sent.
    pub(crate) fn client(
        now: Instant,
        config: Arc<TransportConfig>,
        remote: SocketAddr,
        local: LocalIds,
        setup: &HelloSetup<'_>,
        mut random: SecretRandom,
    ) -> Result<Self, crate::crypto::ClientError> {
        let mut params = Vec::new();
        config.params().write(&mut params);
        let local_id = local.id(PathId(0));
        let handshake = ClientHandshake::new(
            &ClientConfig {
                server: &setup.server,
                identity: &setup.identity,
                connection_id: local_id.0,
                timestamp: setup.wall_nanos,
                has_aes: setup.has_aes,
                params: &params,
                invite: setup.invite,
            },
            &mut random,
        )?;
        let hello = ClientHello {
            identity: setup.identity.clone(),
            server: setup.server,
            invite: setup.invite.to_vec(),
            has_aes: setup.has_aes,
            local_id,
            wall_nanos: setup.wall_nanos,
            started: now,
            give_up_at: now + config.handshake_timeout,
            handshake,
            timestamp_floor: 0,
            stale_count: 0,
            due: now,
            pause: HELLO_PAUSE,
            sent: 0,
        };
        let start = Start {
            side: Side::Client,
            remote,
            remote_id: None,
            peer_key: setup.server,
            local,
        };
        let phase = Phase::Hello(Box::new(hello));
        Ok(Self::new(now, config, &start, phase, random))
    }

    /// A server's connection after it answered a hello.
    pub(crate) fn server(
        now: Instant,
        config: Arc<TransportConfig>,
        start: &Start,
        keys: Keys,
        params: TransportParams,
        random: SecretRandom,
    ) -> Self {
        let phase = Phase::Unproven {
            until: now + PROOF_PATIENCE,
        };
        let mut connection = Self::new(now, config, start, phase, random);
        connection.keys = Some(keys);
        connection.adopt(params);
        connection
    }

    fn adopt(&mut self, params: TransportParams) {
        self.peer_params = Some(params);
        self.sender
            .open_window(ctcp_units::SymbolId(params.window_symbols));
        self.streams
            .set_peer_limits(params.max_data, params.max_stream_data, params.max_streams);
    }

    /// A handshake packet for this client.
    pub(super) fn handle_reply(&mut self, now: Instant, from: SocketAddr, packet: &[u8]) {
        let Phase::Hello(hello) = &mut self.phase else {
            self.stats.unexpected += 1;
            return;
        };
        if from != self.paths[0].remote {
            self.stats.unexpected += 1;
            return;
        }
        match hello.handshake.on_packet(packet) {
            Ok(ClientProgress::Accepted(accepted)) => self.on_accepted(now, *accepted),
            Ok(ClientProgress::Refused(Refusal::Stale { last }))
                if hello.stale_count < STALE_RETRIES =>
            {
                hello.stale_count += 1;
                hello.timestamp_floor = last.saturating_add(1);
                hello.due = now;
                self.renew_hello(now);
            }
            Ok(ClientProgress::Refused(refusal)) => {
                let error = ConnectionError::Refused(refusal);
                self.end(now, 0, "", error);
            }
            Ok(ClientProgress::Cookie) => hello.due = now,
            Err(crate::crypto::ReplyError::Malformed) => {
                self.end(now, 0, "", ConnectionError::BadHandshake("malformed hello"));
            }
            Err(_) => self.stats.forged += 1,
        }
    }

    /// Makes a new hello, with a later timestamp.
    fn renew_hello(&mut self, now: Instant) {
        let mut params = Vec::new();
        self.config.params().write(&mut params);
        if let Phase::Hello(hello) = &mut self.phase
            && let Some(handshake) = hello.say(now, &params, &mut self.random)
        {
            hello.handshake = handshake;
        }
    }

    fn on_accepted(&mut self, now: Instant, accepted: ClientAccepted) {
        let Ok(params) = TransportParams::parse(&accepted.params) else {
            let error = ConnectionError::BadHandshake("impossible limits");
            return self.end(now, 0, "", error);
        };
        self.keys = Some(accepted.keys);
        let path = &mut self.paths[0];
        path.remote_id = Some(ConnectionId(accepted.server_id));
        path.is_validated = true;
        self.phase = Phase::Open;
        self.last_received = now;
        self.adopt(params);
        self.events.push_back(Event::Connected);
        // Proof for the server, which sends nothing before.
        self.controls.push_back(Control::Ping);
    }

    /// The client has proven that it is there.
    pub(super) fn on_proven(&mut self) {
        if matches!(self.phase, Phase::Unproven { .. }) {
            self.phase = Phase::Open;
            self.paths[0].is_validated = true;
            self.events.push_back(Event::Connected);
            self.issue_path_ids();
        }
    }

    /// The hello, if it is due.
    pub(super) fn transmit_hello(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let Phase::Hello(hello) = &self.phase else {
            return None;
        };
        if now < hello.due {
            return None;
        }
        if hello.sent > 0 && hello.sent % HELLOS_ALIKE == 0 {
            self.renew_hello(now);
        }
        let Phase::Hello(hello) = &mut self.phase else {
            return None;
        };
        out.extend_from_slice(hello.handshake.packet());
        hello.sent += 1;
        hello.due = now + hello.pause;
        hello.pause = (hello.pause * 2).min(HELLO_PAUSE_MAX);
        self.sent.handshake += 1;
        self.sent.bytes += out.len() as u64;
        Some(Transmit {
            path: PathId(0),
            remote: self.paths[0].remote,
            ecn: None,
            segment_len: out.len(),
            len: out.len(),
        })
    }

    /// Gives up on a handshake that takes too long.
    pub(super) fn handle_handshake_timeout(&mut self, now: Instant) {
        match &self.phase {
            Phase::Hello(hello) if now >= hello.give_up_at => {
                let remote = self.paths[0].remote;
                self.end(now, 0, "", ConnectionError::NoAnswer { remote });
            }
            Phase::Unproven { until } if now >= *until => self.phase = Phase::Gone,
            _ => {}
        }
    }
}
