//! Every constant of `auto`, with the evidence for it. `docs/control.md` has the
//! measurements; the suite (`ctcp-control-suite`) judges a change.

use ctcp_units::{Duration, millis, seconds};

/// Pacing gain of the start: the smallest that doubles the delivery rate each
/// round trip, 2/ln 2 ([BBR]'s derivation).
pub(super) const START_GAIN: f64 = 2.885_390_081_777_927;
/// Below so many tokens the start quadruples: so few packets flood no path that
/// takes the ten of the first flight.
pub(super) const START_QUICK_TOKENS: f64 = 64.0;
/// Pacing gain then: 4·ln 4/(1 − ¼).
pub(super) const START_QUICK_GAIN: f64 = 7.4;
/// From this base on a path is long: what a start misses there is seconds.
pub(super) const START_LONG: Duration = millis(300);
/// There it quadruples below the window that sends so many packets a second, too: by
/// tokens alone the first doublings of a long path are those of a very slow one.
pub(super) const START_QUICK_RATE: f64 = 512.0;
/// There it sends its window at least so many times a round trip: the last round's
/// rate is that of a round trip ago, and less by what was lost.
pub(super) const START_LONG_GAIN: f64 = 2.0;
/// There the queue that ends it lasts this share of the base: what is sent so leaves
/// in lumps, whose queue passes.
pub(super) const START_QUEUED_SHARE: u32 = 8;
/// There a queue that has passed before a whole span shows the rate by so many packets.
pub(super) const START_SPAN_PACKETS: u64 = 30;
/// The start goes on while a round delivers this many times the last best.
pub(super) const START_GROWTH: f64 = 1.25;
/// Rounds without such growth that end the start although no queue shows.
pub(super) const START_FLAT_ROUNDS: u32 = 3;
/// With a queue in sight, growth below this ends the start at once: a round of
/// the start that finds room doubles.
pub(super) const START_GROWTH_QUEUED: f64 = 1.7;
/// Successive round trips above the margin that end the start within a round.
pub(super) const START_QUEUED_SAMPLES: u32 = 8;
/// In the start the margin is at most this beside the spread: on a path of 500 ms
/// an eighth would be noticed a tenth of a second too late.
pub(super) const START_MARGIN_MAX: Duration = millis(24);
/// A round of the start that does not double and loses more than chance explains by
/// this many packets, and deviations, ends it.
pub(super) const START_LOSSES: f64 = 3.0;
/// In the drain after the start ACKs are counted over this share of the base …
pub(super) const START_SPAN_SHARE: u32 = 4;
/// … or this, whatever is more: on shorter paths ACKs come in lumps of this order,
/// and probes are quick.
pub(super) const START_SPAN_MIN: Duration = millis(50);
/// Pacing gain of the drain after the start.
pub(super) const START_DRAIN_GAIN: f64 = 0.5;

/// A path that is known starts with this share of the flight and the rate that it
/// had: doubling finds the rest within a round trip, and a path that another flow
/// shares by now is not flooded.
pub(super) const RESUME_SHARE: f64 = 0.5;
/// It is the same path if the base differs by no more than this part …
pub(super) const RESUME_RTT_SHARE: u32 = 4;
/// … or this, whatever is more.
pub(super) const RESUME_RTT_SLACK: Duration = millis(5);
/// The jump is void when nobody has used it for so long.
pub(super) const RESUME_UNUSED_MAX: Duration = seconds(10);

/// Pacing gains of successive probes: the second follows a first that found room.
pub(super) const PROBE_GAINS: [f64; 4] = [1.125, 1.5, 2.0, 2.0];
/// A probe asks for at least so many packets a round more, so that a small flight
/// can grow at all.
pub(super) const PROBE_PACKETS: f64 = 2.0;
/// Mean reversals above this share of the base leave delay without meaning: no queue
/// is told from it, and only loss and rate are heard.
pub(super) const NOISY_SHARE: f64 = 0.045;
/// … if this share of the rounds reverses the last so far: a link that slows down
/// makes round trips swing further, but once.
pub(super) const NOISY_ROUNDS: f64 = 0.15;
/// It is over when one of the two is below this share of its limit: noise comes and goes, and
/// a model that takes it for a queue in between gives way to nobody.
pub(super) const NOISY_UNTIL: f64 = 0.5;
/// There, losses beyond chance cut the rate to no less than what arrived over so many
/// rounds: the noise of one is gone from that.
pub(super) const DELIVERED_ROUNDS: usize = 8;
/// The gain of every probe there: a round's rate varies by more than an eighth.
pub(super) const PROBE_GAIN_NOISY: f64 = 1.25;
/// A probe has found room if the delivery rate grew by this share of what was
/// asked for.
pub(super) const PROBE_FOUND: f64 = 0.6;
/// Pacing gain between: the largest of some rounds' rates is a little too much.
pub(super) const CRUISE_GAIN: f64 = 0.99;
/// Pacing gain of a drain.
pub(super) const DRAIN_GAIN: f64 = 0.75;
/// From this chance loss on every drain lasts a whole round, so that enough is
/// sent in it to tell chance from overload.
pub(super) const DRAIN_LONG_LOSS: f64 = 0.25;
/// From this on, every fourth.
pub(super) const DRAIN_FOURTH_LOSS: f64 = 0.05;
/// Rounds after which a drain is over even if the flight has not fallen.
pub(super) const DRAIN_ROUNDS_MAX: u32 = 3;
/// Rounds to wait after a drain: one for its packets to pass, one to look.
pub(super) const SETTLE_ROUNDS: u32 = 2;
/// Rounds at the estimate between looking and probing.
pub(super) const CRUISE_ROUNDS: u32 = 3;
/// The same, at most, after probes that made the queue overflow: each doubles it.
pub(super) const CRUISE_ROUNDS_MAX: u32 = 24;
/// Rounds of the bandwidth filter: a cycle and a little more.
pub(super) const BANDWIDTH_ROUNDS: usize = 10;

/// A queue stands if the least round trip of a round exceeds the base by an
/// eighth of it …
pub(super) const STANDING_SHARE: u32 = 8;
/// … or this, whatever is more …
pub(super) const STANDING_MIN: Duration = millis(2);
/// … or the time of so many packets at the estimated rate, whatever is more; plus
/// the noise.
pub(super) const STANDING_PACKETS: f64 = 3.0;
/// Chance loss lets the queue wander: so many of its standard deviations a round are
/// added to the packets.
pub(super) const STANDING_SIGMAS: f64 = 2.0;
/// Gain of the means of noise, a round.
pub(super) const NOISE_GAIN: f64 = 1.0 / 16.0;
/// Noise in mean reversals of a round's least round trip.
pub(super) const NOISE_REVERSALS: f64 = 3.0;
/// Without the spread, and with half of the shares, the queue counts as empty: it
/// was ours alone.
pub(super) const EMPTY_DIVISOR: u32 = 2;
/// Where delay tells nothing, the largest round trips are covered by the window as
/// far as they exceed the base by so many bases.
pub(super) const NOISE_MAX: f64 = 2.0;
/// A queue that comes up while cruising at the estimate: the estimate was this
/// too much.
pub(super) const CRUISE_CUT: f64 = 0.95;
/// The rate is cut by base/RTT, but never below this share at once.
pub(super) const CUT_MIN: f64 = 0.7;

/// The window in bandwidth-delay products. Pacing is what limits as long as nobody
/// else fills the queue; if somebody does, the window makes the rate fall with the
/// first round trip that is longer.
pub(super) const WINDOW_GAIN: f64 = 1.25;
/// Packets of window for each packet of the longest run lost in a row: a burst that
/// takes a whole flight or its ACKs must not stop the sender. One for the run, and
/// two as another may meet the ACKs, of which there is one for two packets.
pub(super) const WINDOW_BURSTS: f64 = 3.0;
/// … which fades by this a round.
pub(super) const BURST_FADE: f64 = 0.995;
/// Gain of the mean run of losses, a run.
pub(super) const BURST_GAIN: f64 = 1.0 / 16.0;
/// The window grows for bursts up to so many bandwidth-delay products.
pub(super) const WINDOW_GAIN_MAX: f64 = 5.0;
/// Packets above that: ACKs come for two packets, and some are lost.
pub(super) const WINDOW_SLACK: f64 = 6.0;

/// Share by which the smallest round trip of long rises a second.
pub(super) const LOW_RISE: f64 = 0.005;
/// Drains tell of loss while round trips exceed it by no more than the time of so many
/// packets, and noise: in a queue that is always full they stand above the smallest,
/// in one that is empty they do not.
pub(super) const CLEAR_PACKETS: f64 = 5.0;

/// Counts of sent and lost packets are halved when so many were sent.
pub(super) const LOSS_MEMORY: f64 = 1000.0;
/// The same for those sent while draining: of a policer's loss the drains' share
/// must fall within seconds.
pub(super) const LOSS_MEMORY_DRAIN: f64 = 200.0;
/// The mean loss is believed as far as the loss while draining, so many of its
/// standard deviations added, reaches.
pub(super) const LOSS_SIGMAS: f64 = 2.0;
/// So much at most is believed beyond that because drains are short: what they did
/// not see at all is nothing to send more for.
pub(super) const LOSS_UNSEEN: f64 = 0.02;
/// Packets of drains that must have been heard of before any loss counts as chance.
pub(super) const LOSS_COUNT_MIN: f64 = 8.0;
/// With fewer drains last a whole round as soon as there is loss …
pub(super) const LOSS_COUNT_WANTED: f64 = 48.0;
/// … and so they do while the mean exceeds by this what they explain.
pub(super) const LOSS_UNEXPLAINED: f64 = 0.01;
/// More than this is never made up for by sending more: at 0.5 a drain sends
/// 0.75/0.5 of what arrives, so that a policer's loss is seen to fall.
pub(super) const LOSS_MAX: f64 = 0.5;
/// Losses of one round are congestion if they come with a queue and exceed what
/// chance explains by so many standard deviations.
pub(super) const CONGESTION_SIGMAS: f64 = 4.0;
/// Below this chance loss three standard deviations will do, and probes that make
/// the queue overflow become rarer.
pub(super) const CLEAN_LOSS: f64 = 0.02;
/// See [`CLEAN_LOSS`].
pub(super) const CONGESTION_SIGMAS_CLEAN: f64 = 3.0;
/// While others are there the floor rules if it is at least this share of what the
/// model would have in flight; below, random loss holds it, and the model gives
/// way by itself.
pub(super) const FLOOR_SHARE: f64 = 0.5;

/// After so many cuts in a row that did not shorten the round trip it is no queue,
/// where random loss keeps others from filling it: the rest is taken for usual.
pub(super) const FUTILE_CUTS: u32 = 2;
/// So many times in a row a round trip that stands although more arrives is no
/// queue either: a busy link delivers no more.
pub(super) const FREE_GROWTHS: u32 = 3;
/// More is this much more.
pub(super) const FREE_GROWTH: f64 = 1.015;
/// What is taken for usual fades by this a round without a queue.
pub(super) const BIAS_FADE: f64 = 0.98;

/// While others are there, the floor gives way for a drain every so many rounds, to
/// see whether the queue is ours alone by now; without sign of others at every
/// drain.
pub(super) const TEST_ROUNDS: u32 = 60;

/// A queue counts as full within this share of the highest it has been …
pub(super) const FULL_SHARE: f64 = 0.9;
/// … and as fallen below this.
pub(super) const FALLEN_SHARE: f64 = 0.8;
/// The highest fades by this a round.
pub(super) const FULL_FADE: f64 = 0.998;
/// So many times a full queue may fall without a loss of ours: paced packets slip
/// past where the bursts of others are cut.
pub(super) const FALLS_UNANSWERED: u32 = 2;

/// β and C of the neighbour that the floor imitates are those of CUBIC
/// ([RFC9438] §4.6).
pub(super) const FLOOR_BETA: f64 = 0.7;
/// Pacing of the floor above its window over srtt.
pub(super) const FLOOR_PACING_GAIN: f64 = 1.25;
/// Answer of the model to congestion marks, once a round: CUBIC's with marks
/// ([RFC8511]).
pub(super) const MARK_FACTOR: f64 = 0.85;
/// What is left of the model after a silence.
pub(super) const SILENCE_FACTOR: f64 = 0.5;
