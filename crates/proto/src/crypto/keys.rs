//! Sealing and opening of protected packets, and the update of their keys.
//!
//! ```text
//! flags:1 | connection id:8 | packet number:3 | ciphertext | tag:16
//! ```
//!
//! The first 12 bytes in the clear are the associated data. The flags (all but
//! the highest bit, which is 0) and the packet number are then masked with the
//! header-protection key and the 16 bytes that follow them: [RFC9001] §5.4. With
//! an empty text these are the tag.
//!
//! # Key update
//!
//! As [RFC9001] §6: a bit in the flags tells the parity of the key phase, both
//! directions move on together, and the header-protection keys stay. Who gets a
//! packet of the next phase moves on at once and answers in it.
//!
//! Three rules keep two updates apart. A side begins one only if
//!
//! 1. a packet it sent in the present phase was acknowledged: the peer is there;
//! 2. it has received a packet of the present phase: the peer sends in it;
//! 3. it has dropped the keys of the phase before, so that the bit is unambiguous.
//!
//! Departure: numbers are counted per path. While the previous keys are held, a
//! packet of the other parity belongs to them if the path has not yet carried
//! the present phase, or carried it only with higher numbers. One key is tried
//! for a packet, never two: a failed attempt destroys the text. So if the peer
//! forgets the previous keys sooner than we do and begins the next update at
//! once, a path that was silent for a whole phase loses its packets until we
//! forget them too. Updates by themselves are millions of packets apart.

use core::fmt;
use core::ops::Range;

use ctcp_units::{Instant, PacketNumber, PathId};
use ring::aead::quic::HeaderProtectionKey;
use thiserror::Error;

use super::aead::PacketKey;
use super::first_numbers::FirstNumbers;
use super::number::{NUMBER_END, recover_number};
use super::replay::{ReplayError, ReplayWindow};
use super::schedule::{Suite, TrafficSecret};

/// Bytes before the ciphertext: flags, connection id, packet number.
pub const HEADER_LEN: usize = 12;
/// Bytes of the tag after the ciphertext.
pub const TAG_LEN: usize = 16;
/// Bytes of a protected packet that carries nothing.
pub const MIN_PACKET_LEN: usize = HEADER_LEN + TAG_LEN;
/// The bit of the flags that holds the parity of the key phase.
pub const KEY_PHASE: u8 = 0x40;

/// The bit that tells handshake packets; 0 in protected ones.
pub(super) const HANDSHAKE: u8 = 0x80;

/// Where the packet number stands.
const NUMBER: Range<usize> = 9..12;
/// What header protection reads.
const SAMPLE: Range<usize> = HEADER_LEN..HEADER_LEN + 16;

/// Packets sealed by one key before it is replaced: half of what [RFC9001] §6.6
/// allows AES-128-GCM. ChaCha20-Poly1305 would need no update, but one path
/// through the code is better tested than two.
const UPDATE_AFTER: u64 = 1 << 22;

/// Why a packet cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SealError {
    /// There is no room for header and tag.
    #[error("packet of {len} bytes has no room for header and tag")]
    TooShort {
        /// Its length, bytes.
        len: usize,
    },
    /// The path has used up its 2^62 packet numbers.
    #[error("no packet number left on this path")]
    NumbersExhausted,
    /// The key may seal no more, and the peer has not followed to the next one.
    /// The connection must end.
    #[error("key used up before the peer confirmed the last key update")]
    KeyExhausted,
}

/// Why a packet was not opened. It is dropped; nothing has changed but the
/// count of forged packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Shorter than header and tag.
    #[error("packet of {len} bytes is shorter than header and tag")]
    Truncated {
        /// Its length, bytes.
        len: usize,
    },
    /// The highest bit of the flags is set: a handshake packet.
    #[error("a handshake packet, not a protected one")]
    NotProtected,
    /// Received before, or too old to tell.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The tag does not fit: changed on the way, forged, or of another
    /// connection.
    #[error("packet is forged or damaged")]
    Forged,
    /// More forged packets than the cipher withstands: [RFC9001] §6.6.
    #[error("more forged packets than the cipher withstands")]
    TooManyForged,
    /// The peer began a key update before the last one was confirmed.
    #[error("peer updated its keys twice without waiting")]
    UpdateTooEarly,
}

impl OpenError {
    /// Whether the connection must end: the cipher is worn out, or the peer
    /// (the packet is authentic) breaks the protocol.
    pub const fn is_fatal(self) -> bool {
        matches!(self, Self::TooManyForged | Self::UpdateTooEarly)
    }
}

/// Why a key update cannot begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UpdateError {
    /// No packet of this key phase has been acknowledged.
    #[error("no packet of the present key phase has been acknowledged")]
    NotAcknowledged,
    /// The peer still sends in the phase before.
    #[error("the peer has not followed to the present key phase")]
    PeerBehind,
    /// The receive keys of the phase before are still held.
    #[error("the keys of the previous phase are still held")]
    PreviousHeld,
}

/// What an opened packet says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its full packet number.
    pub number: PacketNumber,
    /// Its flags without key phase and handshake bit.
    pub flags: u8,
    /// Where its text lies in the buffer.
    pub payload: Range<usize>,
    /// It began a new key phase. The caller answers with
    /// [`Keys::hold_previous_until`].
    pub key_phase_changed: bool,
}

/// The keys of a connection, both directions.
///
/// After [`Opened::key_phase_changed`] the caller names the moment until which
/// late packets of the old phase may arrive (three probe timeouts of the slowest
/// path), and calls [`Keys::handle_timeout`] at [`Keys::deadline`]. It reports
/// acknowledgements by [`Keys::on_acknowledged`]. Updates then happen by
/// themselves, well before a key is used up.
pub struct Keys {
    suite: Suite,
    send: Sending,
    receive: Receiving,
}

struct Sending {
    secret: TrafficSecret,
    header: HeaderProtectionKey,
    key: PacketKey,
    phase: u64,
    /// Packets sealed in this phase.
    sealed: u64,
    /// First number on each path in this phase, until it is confirmed.
    first: FirstNumbers,
    is_confirmed: bool,
}

struct Receiving {
    /// The secret behind `next`.
    next_secret: TrafficSecret,
    header: HeaderProtectionKey,
    previous: Option<PacketKey>,
    previous_until: Option<Instant>,
    key: PacketKey,
    /// Made ahead: making it takes longer than opening a packet, and the time
    /// an answer takes shall not tell who guessed the key phase.
    next: PacketKey,
    phase: u64,
    /// Lowest number on each path in this phase, while `previous` is held.
    first: FirstNumbers,
    forged: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Previous,
    Present,
    Next,
}

impl Keys {
    /// Keys of one side from the two halves of the handshake's split.
    pub(super) fn new(suite: Suite, send: TrafficSecret, receive: TrafficSecret) -> Self {
        Self {
            suite,
            send: Sending::new(suite, send),
            receive: Receiving::new(suite, &receive),
        }
    }

    /// Keys of a client and its server made of `secret`, without a handshake:
    /// for tests, simulations and benchmarks.
    pub fn pair(suite: Suite, secret: [u8; 32]) -> (Self, Self) {
        let upstream = || TrafficSecret::of_handshake(&secret, b"client to server");
        let downstream = || TrafficSecret::of_handshake(&secret, b"server to client");
        (
            Self::new(suite, upstream(), downstream()),
            Self::new(suite, downstream(), upstream()),
        )
    }

    /// The cipher.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// The key phase of packets sent, counted from 0.
    pub const fn key_phase(&self) -> u64 {
        self.send.phase
    }

    /// Packets whose tag did not fit, so far.
    pub const fn forged_count(&self) -> u64 {
        self.receive.forged
    }

    /// Seals `packet`: 12 bytes of header, text, 16 spare bytes.
    ///
    /// Of the header the caller has filled flags (lower six bits) and connection
    /// id; key phase and packet number are filled in here. A number is used once
    /// on a path, and rises with every call.
    ///
    /// # Errors
    /// [`SealError`]; the packet is then not to be sent.
    pub fn seal_in_place(
        &mut self,
        path: PathId,
        number: PacketNumber,
        packet: &mut [u8],
    ) -> Result<(), SealError> {
        if packet.len() < MIN_PACKET_LEN {
            return Err(SealError::TooShort { len: packet.len() });
        }
        if number.0 >= NUMBER_END {
            return Err(SealError::NumbersExhausted);
        }
        if self.send.sealed >= UPDATE_AFTER {
            // Refused, this key goes on until it is used up.
            let _ = self.update();
        }
        if self.send.sealed >= self.suite.sealed_max() {
            return Err(SealError::KeyExhausted);
        }
        self.send.seal(path, number, packet);
        Ok(())
    }

    /// Opens `packet` that arrived on `path`; `window` is that path's.
    ///
    /// On success header and text stand in the buffer in the clear, and the
    /// window has taken note. On failure the buffer holds garbage.
    ///
    /// # Errors
    /// [`OpenError`]; see [`OpenError::is_fatal`].
    pub fn open_in_place(
        &mut self,
        path: PathId,
        window: &mut ReplayWindow,
        packet: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let len = packet.len();
        if len < MIN_PACKET_LEN {
            return Err(OpenError::Truncated { len });
        }
        if packet[0] & HANDSHAKE != 0 {
            return Err(OpenError::NotProtected);
        }
        if self.receive.forged >= self.suite.forged_max() {
            return Err(OpenError::TooManyForged);
        }
        apply_mask(&self.receive.header, packet);
        let flags = packet[0];
        let truncated = u32::from_be_bytes([0, packet[9], packet[10], packet[11]]);
        let number = recover_number(window.expected(), truncated);
        // Before the AEAD: a flood of copies costs the mask only. What its timing
        // may tell is whether a number was seen, and no one answers.
        window.check(number)?;
        let phase = self.receive.phase_of(path, number, flags);
        if self
            .receive
            .key_of(phase)
            .open(path, number, packet)
            .is_err()
        {
            self.receive.forged += 1;
            return Err(OpenError::Forged);
        }
        self.on_opened(path, number, phase)?;
        window.mark(number);
        Ok(Opened {
            number,
            flags: flags & !(KEY_PHASE | HANDSHAKE),
            payload: HEADER_LEN..len - TAG_LEN,
            key_phase_changed: phase == Phase::Next,
        })
    }

    /// Begins a key update: what is sealed from now on uses the next keys.
    ///
    /// # Errors
    /// [`UpdateError`] if the last update is not settled; nothing has changed.
    pub fn update(&mut self) -> Result<(), UpdateError> {
        if self.send.phase != self.receive.phase {
            return Err(UpdateError::PeerBehind);
        }
        if self.receive.previous.is_some() {
            return Err(UpdateError::PreviousHeld);
        }
        if !self.send.is_confirmed {
            return Err(UpdateError::NotAcknowledged);
        }
        self.send.advance(self.suite);
        Ok(())
    }

    /// The peer has acknowledged `number` on `path`. The largest number newly
    /// acknowledged suffices.
    pub fn on_acknowledged(&mut self, path: PathId, number: PacketNumber) {
        if self.send.is_confirmed {
            return;
        }
        if self
            .send
            .first
            .of(path)
            .is_some_and(|first| number >= first)
        {
            self.send.is_confirmed = true;
        }
    }

    /// Keeps the receive keys of the previous phase until `at`.
    pub fn hold_previous_until(&mut self, at: Instant) {
        if self.receive.previous.is_some() {
            self.receive.previous_until = Some(at);
        }
    }

    /// When [`Keys::handle_timeout`] has something to do.
    pub const fn deadline(&self) -> Option<Instant> {
        self.receive.previous_until
    }

    /// Drops the previous receive keys if their time is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self
            .receive
            .previous_until
            .is_some_and(|until| now >= until)
        {
            self.receive.previous = None;
            self.receive.previous_until = None;
            self.receive.first.clear();
        }
    }

    /// Follows the peer where an authentic packet of `phase` leads.
    fn on_opened(
        &mut self,
        path: PathId,
        number: PacketNumber,
        phase: Phase,
    ) -> Result<(), OpenError> {
        match phase {
            Phase::Previous => {}
            Phase::Present => {
                if self.receive.previous.is_some() {
                    self.receive.first.note(path, number);
                }
            }
            Phase::Next => {
                let peer_is_ahead = self.send.phase == self.receive.phase;
                // The peer needs an answer in the present phase before it may go
                // on, and we have sent none.
                if peer_is_ahead && self.send.sealed == 0 {
                    return Err(OpenError::UpdateTooEarly);
                }
                self.receive.advance(self.suite);
                self.receive.first.note(path, number);
                if peer_is_ahead {
                    self.send.advance(self.suite);
                }
            }
        }
        Ok(())
    }

    /// As if so many packets had been sealed and found forged.
    #[cfg(test)]
    pub(super) fn pretend(&mut self, sealed: u64, forged: u64) {
        self.send.sealed = sealed;
        self.receive.forged = forged;
    }
}

impl Sending {
    fn new(suite: Suite, secret: TrafficSecret) -> Self {
        Self {
            header: secret.header_key(suite),
            key: secret.packet_key(suite),
            secret,
            phase: 0,
            sealed: 0,
            first: FirstNumbers::default(),
            is_confirmed: false,
        }
    }

    fn seal(&mut self, path: PathId, number: PacketNumber, packet: &mut [u8]) {
        packet[0] = packet[0] & !(HANDSHAKE | KEY_PHASE) | phase_bit(self.phase);
        packet[NUMBER].copy_from_slice(&number.0.to_be_bytes()[5..]);
        self.key.seal(path, number, packet);
        apply_mask(&self.header, packet);
        self.sealed += 1;
        if !self.is_confirmed {
            self.first.note(path, number);
        }
    }

    fn advance(&mut self, suite: Suite) {
        self.secret = self.secret.next();
        self.key = self.secret.packet_key(suite);
        self.phase += 1;
        self.sealed = 0;
        self.first.clear();
        self.is_confirmed = false;
    }
}

impl Receiving {
    fn new(suite: Suite, secret: &TrafficSecret) -> Self {
        let next_secret = secret.next();
        Self {
            header: secret.header_key(suite),
            previous: None,
            previous_until: None,
            key: secret.packet_key(suite),
            next: next_secret.packet_key(suite),
            next_secret,
            phase: 0,
            first: FirstNumbers::default(),
            forged: 0,
        }
    }

    /// To which phase a packet claims to belong.
    fn phase_of(&self, path: PathId, number: PacketNumber, flags: u8) -> Phase {
        if flags & KEY_PHASE == phase_bit(self.phase) {
            return Phase::Present;
        }
        let is_before_present = || self.first.of(path).is_none_or(|first| number < first);
        if self.previous.is_some() && is_before_present() {
            Phase::Previous
        } else {
            Phase::Next
        }
    }

    fn key_of(&self, phase: Phase) -> &PacketKey {
        match (phase, &self.previous) {
            (Phase::Previous, Some(previous)) => previous,
            (Phase::Next, _) => &self.next,
            _ => &self.key,
        }
    }

    fn advance(&mut self, suite: Suite) {
        self.next_secret = self.next_secret.next();
        let next = self.next_secret.packet_key(suite);
        let present = core::mem::replace(&mut self.next, next);
        self.previous = Some(core::mem::replace(&mut self.key, present));
        self.previous_until = None;
        self.phase += 1;
        self.first.clear();
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("suite", &self.suite)
            .field("send_phase", &self.send.phase)
            .field("receive_phase", &self.receive.phase)
            .finish_non_exhaustive()
    }
}

const fn phase_bit(phase: u64) -> u8 {
    if phase % 2 == 1 { KEY_PHASE } else { 0 }
}

/// Puts header protection on, or takes it off: it is its own inverse.
fn apply_mask(key: &HeaderProtectionKey, packet: &mut [u8]) {
    let mask = key
        .new_mask(&packet[SAMPLE])
        .expect("the sample has 16 bytes");
    packet[0] ^= mask[0] & !HANDSHAKE;
    for (byte, mask) in packet[NUMBER].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
}
