//! What a path, a flow and a workload are in a recipe.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::Scale;
use super::radio::{self, Radio};
use super::value::{Bdp, Bytes, Count, Mbit, Millis, Retries, Scaled, Seconds, Share, Span};
use crate::point::{Gives, Position, Process, Program, System};
use crate::suite;

/// A number, or something with keys.
pub(super) enum NumberOr<T> {
    Number(f64),
    Other(T),
}

/// Reads either, keeping the place of an error inside.
pub(super) fn number_or<'de, D, T>(
    deserializer: D,
    expected: &'static str,
) -> Result<NumberOr<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Either<T>(&'static str, PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
        type Value = NumberOr<T>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str(self.0)
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
            Ok(NumberOr::Number(value as f64))
        }

        fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
            Ok(NumberOr::Number(value))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(NumberOr::Other)
        }
    }

    deserializer.deserialize_any(Either(expected, PhantomData))
}

/// A path as the recipe has it, both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Rate of either direction.
    pub rate_mbit: Mbit,
    /// Propagation delay, there and back.
    pub rtt_ms: Millis,
    /// Queue in bandwidth-delay products.
    pub queue_bdp: Bdp,
    /// Largest IP packet.
    #[serde(default = "ethernet")]
    pub mtu_bytes: u32,
    /// Loss of the data direction; the papers' ACKs are not lost.
    #[serde(default)]
    pub loss: LossSpec,
    /// Loss of the other direction.
    #[serde(default)]
    pub loss_up: LossSpec,
    /// Where both are.
    pub loss_position: Position,
    /// Links in a row that it is made of.
    #[serde(default = "one_hop")]
    pub hops: Count,
    /// Marks instead of drops from this share of the queue on.
    #[serde(default)]
    pub ecn_queue_share: Option<Share>,
    /// Delay that comes and goes in the data direction.
    #[serde(default)]
    pub noise: Option<NoiseSpec>,
    /// Round trips that follow each other for ever.
    #[serde(default)]
    pub rtt_phases: Vec<RttPhaseSpec>,
    /// Rates of the data direction that follow each other for ever.
    #[serde(default)]
    pub rate_phases: Vec<RatePhaseSpec>,
    /// Shares lost in either direction that follow each other for ever.
    #[serde(default)]
    pub loss_phases: Vec<LossPhaseSpec>,
    /// When nothing passes in either direction.
    #[serde(default)]
    pub outages: Vec<OutageSpec>,
    /// A token bucket of so many bytes that drops, in place of the queue of the
    /// data direction.
    #[serde(default)]
    pub policer_burst_bytes: Option<Bytes>,
}

/// Delay beyond the path's own.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseSpec {
    /// The most.
    pub max_ms: Millis,
    /// From one random value to the next.
    pub interval_ms: Millis,
}

/// A round trip for a while.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RttPhaseSpec {
    /// For how long.
    pub for_s: Span,
    /// There and back.
    pub rtt_ms: Millis,
}

/// A rate for a while.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatePhaseSpec {
    /// For how long.
    pub for_s: Span,
    /// IP headers counted.
    pub rate_mbit: Mbit,
}

/// A share lost for a while, before the rate limiter.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossPhaseSpec {
    /// For how long.
    pub for_s: Span,
    /// Each packet by itself.
    pub loss: Share,
}

/// A time in which nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// Its start, from when the path began.
    pub from_s: Seconds,
    /// For how long.
    pub for_s: Span,
}

fn one_hop() -> Count {
    Count::new(1.0).expect("one is a count")
}

/// What the papers' hosts send.
fn ethernet() -> u32 {
    1500
}

/// A loss process: a share (each packet by itself), or a table.
#[derive(Debug, Clone, PartialEq)]
pub enum LossSpec {
    /// Each packet by itself.
    Bernoulli(Share),
    /// Something with more to it.
    Radio(Radio),
}

impl Default for LossSpec {
    fn default() -> Self {
        Self::Bernoulli(Share::new(0.0).expect("nothing lost is a share"))
    }
}

impl<'de> Deserialize<'de> for LossSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a share lost, or one of { gilbert_elliott = … }, { every_nth = … }, \
                        { interference = … }, { hidden_terminal = … }";
        match number_or(deserializer, expected)? {
            NumberOr::Number(share) => Share::new(share)
                .map(Self::Bernoulli)
                .map_err(de::Error::custom),
            NumberOr::Other(radio) => Ok(Self::Radio(radio)),
        }
    }
}

impl LossSpec {
    /// The process, for packets of `mtu_bytes`.
    pub(super) fn process(&self, mtu_bytes: u32) -> Process {
        match self {
            Self::Bernoulli(share) => radio::bernoulli(share.get()),
            Self::Radio(radio) => radio.process(mtu_bytes),
        }
    }
}

/// What a series or a case changes.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The paths, in place of the recipe's; what else is set goes for them, too.
    pub paths: Option<Vec<PathSpec>>,
    /// Rate of all paths.
    pub rate_mbit: Option<Mbit>,
    /// Propagation round trip of all paths.
    pub rtt_ms: Option<Millis>,
    /// Queue of all paths.
    pub queue_bdp: Option<Bdp>,
    /// Loss of the data direction.
    pub loss: Option<LossSpec>,
    /// Loss of the other direction.
    pub loss_up: Option<LossSpec>,
    /// Where both are.
    pub loss_position: Option<Position>,
    /// Mean rate of a hidden terminal.
    pub hidden_mbit: Option<Mbit>,
    /// Retransmissions by the radio.
    pub retries: Option<Retries>,
    /// Size of the objects fetched.
    pub bytes: Option<Bytes>,
    /// How many are fetched.
    pub count: Option<Scaled<Count>>,
    /// Length of the film.
    pub film_s: Option<Scaled<Span>>,
    /// What is not counted of a bulk transfer.
    pub warmup_s: Option<Scaled<Seconds>>,
    /// What is counted of it.
    pub duration_s: Option<Scaled<Span>>,
    /// Who fetches or plays.
    pub program: Option<Program>,
    /// Settings of simulated transports, by flow and key: `udp.udp.rate` is the
    /// rate of the flow `udp`. Flows that a series does not have do not matter.
    #[serde(default)]
    pub simulated: BTreeMap<String, toml::Value>,
    /// Parameters of equations.
    #[serde(default)]
    pub model: BTreeMap<String, f64>,
}

/// One flow of a series.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// What claims and figures call it.
    #[serde(default = "measured")]
    pub name: String,
    /// The transport, unless one of the next two is given.
    #[serde(default)]
    pub system: Option<SystemSpec>,
    /// A transport of the simulator with its settings, as a scenario of
    /// `ctcp sim` has them.
    #[serde(default)]
    pub simulated: Option<toml::Table>,
    /// An equation in place of a flow.
    #[serde(default)]
    pub model: Option<ModelSpec>,
    /// Or who is scored by the suite of the controllers: `auto`, `tcp:cubic`.
    #[serde(default)]
    pub suite: Option<String>,
    /// So many of them, each with a number behind its name.
    #[serde(default = "one_hop")]
    pub copies: Count,
    /// `--redundancy` of CTCP.
    #[serde(default)]
    pub redundancy: String,
    /// Further arguments of CTCP.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What it carries, if not the recipe's workload.
    #[serde(default)]
    pub workload: Option<WorkloadSpec>,
    /// When it starts.
    #[serde(default = "at_once")]
    pub start_s: Seconds,
    /// It starts up to so much later, by chance; all series alike.
    #[serde(default = "at_once")]
    pub start_within_s: Seconds,
    /// Each copy starts so much after the one before it; those that are there
    /// already begin to count only with the last.
    #[serde(default = "at_once")]
    pub start_every_s: Seconds,
    /// Delay beyond that of the paths.
    #[serde(default)]
    pub extra_rtt_ms: Option<Millis>,
    /// Paths of CTCP over each path, which share it.
    #[serde(default = "one_hop")]
    pub paths_each: Count,
}

/// An equation of `ctcp model`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Its name.
    pub name: String,
    /// How it is read; empty: its first reading.
    #[serde(default)]
    pub reading: String,
    /// Its parameters; what is left out has the model's default.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
    /// Parameters that take the value of an axis.
    #[serde(default)]
    pub from: BTreeMap<String, String>,
    /// Which of its outputs is taken.
    pub output: String,
    /// As what.
    #[serde(default)]
    pub gives: Gives,
}

fn measured() -> String {
    "measured".to_owned()
}

fn at_once() -> Seconds {
    Seconds::new(0.0).expect("the start is a time")
}

/// `tcp/cubic`, `mptcp/cubic` or `ctcp/cc14`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemSpec {
    /// Which transport.
    pub family: Family,
    /// Its congestion control.
    pub congestion: String,
}

impl SystemSpec {
    /// Whether it is ours.
    pub fn is_ctcp(&self) -> bool {
        self.family == Family::Ctcp
    }
}

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// The kernel's TCP, or the simulator's.
    Tcp,
    /// The kernel's Multipath TCP.
    Mptcp,
    /// CTCP.
    Ctcp,
}

/// Congestion controls of TCP that testbed or simulator may have.
const TCP: [&str; 12] = [
    "reno", "cubic", "bbr", "htcp", "westwood", "veno", "hybla", "vegas", "compound", "bic",
    "illinois", "dctcp",
];

/// Congestion controls that CTCP has or will have.
const CTCP: [&str; 15] = [
    "auto",
    "cc14",
    "mp12",
    "sat",
    "reno",
    "cubic",
    "htcp",
    "hybla",
    "westwood",
    "veno",
    "vegas",
    "bbr",
    "cc14-cubic",
    "cc14-compound",
    "tcp-cd",
];

impl<'de> Deserialize<'de> for SystemSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (family, congestion) = text.split_once('/').unwrap_or((&text, ""));
        let (family, known): (_, &[&str]) = match family {
            "tcp" => (Family::Tcp, &TCP),
            "mptcp" => (Family::Mptcp, &TCP),
            "ctcp" => (Family::Ctcp, &CTCP),
            _ => {
                return Err(de::Error::custom(format!(
                    "`{text}` is no system: tcp/NAME, mptcp/NAME or ctcp/NAME is, \
                     as in tcp/cubic"
                )));
            }
        };
        if !known.contains(&congestion) {
            return Err(de::Error::custom(format!(
                "`{text}` names no congestion control known for it: {}",
                known.join(", ")
            )));
        }
        Ok(Self {
            family,
            congestion: congestion.to_owned(),
        })
    }
}

impl FlowSpec {
    /// Its names: one, or one for each copy.
    pub(super) fn names(&self) -> Vec<String> {
        match self.copies.get() as u32 {
            1 => vec![self.name.clone()],
            count => (1..=count).map(|n| format!("{}-{n}", self.name)).collect(),
        }
    }

    /// The transport as a point at the place `at` has it.
    ///
    /// # Errors
    /// What is wrong, if the settings do not fit the simulated transport.
    pub(super) fn system(
        &self,
        overrides: &Settings,
        at: &BTreeMap<String, f64>,
        scale: Scale,
    ) -> Result<System, String> {
        if let Some(contestant) = &self.suite {
            let row = at.get(suite::AXIS).and_then(|at| suite::row_at(*at));
            let row = row.ok_or("the suite has no such situation")?;
            return Ok(System::Suite {
                contestant: contestant.clone(),
                row: row.name,
                is_quick: scale == Scale::Quick,
            });
        }
        if let Some(transport) = &self.simulated {
            let transport = overrides.simulated(&self.name, transport)?;
            return Ok(System::Simulated { transport });
        }
        if let Some(model) = &self.model {
            return model.system(overrides, at);
        }
        let system = self.system.as_ref().ok_or_else(|| {
            let name = &self.name;
            format!("the flow `{name}` needs `system`, `simulated`, `model` or `suite`")
        })?;
        let congestion = system.congestion.clone();
        Ok(match system.family {
            Family::Tcp => System::Tcp { congestion },
            Family::Mptcp => System::Mptcp { congestion },
            Family::Ctcp => System::Ctcp {
                congestion,
                redundancy: self.redundancy.clone(),
                arguments: self.arguments.clone(),
            },
        })
    }
}

impl ModelSpec {
    fn system(&self, overrides: &Settings, at: &BTreeMap<String, f64>) -> Result<System, String> {
        let mut parameters = self.parameters.clone();
        for (parameter, axis) in &self.from {
            let value = at
                .get(axis)
                .ok_or_else(|| format!("the parameter `{parameter}` has no axis `{axis}`"))?;
            parameters.insert(parameter.clone(), *value);
        }
        let model = ctcp_model::model_by_name(&self.name).map_err(|error| error.to_string())?;
        let known = |name: &&String| model.parameter(name).is_ok();
        let set = overrides.model.iter().filter(|(name, _)| known(name));
        parameters.extend(set.map(|(name, value)| (name.clone(), *value)));
        Ok(System::Model {
            name: self.name.clone(),
            reading: self.reading.clone(),
            parameters,
            output: self.output.clone(),
            gives: self.gives,
        })
    }
}

impl Settings {
    /// The transport of a flow with what the settings say of it.
    fn simulated(&self, flow: &str, transport: &toml::Table) -> Result<toml::Table, String> {
        let mut changed = transport.clone();
        for (key, value) in &self.simulated {
            let Some((_, path)) = key.split_once('.').filter(|(name, _)| *name == flow) else {
                continue;
            };
            let (table, key) = path
                .split_once('.')
                .ok_or_else(|| format!("`{key}` is no FLOW.TRANSPORT.KEY"))?;
            // Series may carry a flow of one name by different transports.
            if let Some(toml::Value::Table(settings)) = changed.get_mut(table) {
                settings.insert(key.to_owned(), value.clone());
            }
        }
        Ok(changed)
    }
}

/// What a flow carries.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkloadSpec {
    /// As much as goes, for a time.
    Bulk {
        /// Not counted.
        warmup_s: Scaled<Seconds>,
        /// Counted.
        duration_s: Scaled<Span>,
        /// What a source of steady rate has to send, instead of as much as goes.
        #[serde(default)]
        offered_mbit: Option<Mbit>,
    },
    /// Objects, one after the other.
    Fetch {
        /// Size of each.
        bytes: Bytes,
        /// How many.
        count: Scaled<Count>,
        /// Who fetches.
        program: Program,
        /// Each over a connection of its own.
        cold: bool,
    },
    /// A film.
    Video {
        /// Its length.
        film_s: Scaled<Span>,
        /// Its rate.
        rate_mbit: Mbit,
        /// Buffered before it plays.
        buffer_s: Seconds,
        /// Who plays.
        program: Program,
    },
}
