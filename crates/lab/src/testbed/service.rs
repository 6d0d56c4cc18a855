//! Programs that run beside a flow for as long as it lasts.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use ctcp_emu::{Namespace, Process};

use crate::venue::RunError;
use crate::workload::Deadline;

/// Lines of what a program said that are kept.
const LINES_MAX: usize = 50;

/// A program in a namespace. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Service {
    name: String,
    process: Process,
    heard: Arc<(Mutex<Heard>, Condvar)>,
}

#[derive(Debug, Default)]
struct Heard {
    lines: VecDeque<String>,
    is_ready: bool,
    has_ended: bool,
}

impl Service {
    /// Starts it; `name` is what errors call it.
    pub(crate) fn start(
        namespace: &Namespace,
        name: &str,
        mut command: Command,
    ) -> Result<Self, RunError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = namespace
            .spawn(command)
            .map_err(|error| RunError::Failed(error.to_string()))?;
        let errors = process.stderr.take().expect("it is piped");
        let heard = Arc::new((Mutex::new(Heard::default()), Condvar::new()));
        let listener = heard.clone();
        thread::spawn(move || listen(errors, &listener));
        Ok(Self {
            name: name.to_owned(),
            process,
            heard,
        })
    }

    /// Waits until it says `READY` on its standard error.
    pub(crate) fn wait_ready(&self, deadline: &Deadline) -> Result<(), RunError> {
        let (heard, news) = &*self.heard;
        let mut heard = heard.lock().expect("no holder panics");
        while !heard.is_ready {
            if heard.has_ended {
                return Err(ended(&self.name, &heard));
            }
            if deadline.is_over()? {
                let name = &self.name;
                return Err(RunError::Failed(format!(
                    "`{name}` is not ready in time{}",
                    last(&heard)
                )));
            }
            let look = crate::workload::LOOK;
            heard = news.wait_timeout(heard, look).expect("no holder panics").0;
        }
        Ok(())
    }

    /// That it has not ended by itself.
    pub(crate) fn check_alive(&mut self) -> Result<(), RunError> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            _ => {
                let heard = self.heard.0.lock().expect("no holder panics");
                Err(ended(&self.name, &heard))
            }
        }
    }

    /// Asks it to end, and kills it if it does not within `patience`.
    pub(crate) fn stop(mut self, patience: std::time::Duration) {
        use rustix::process::{Pid, Signal, kill_process};
        let Some(pid) = Pid::from_raw(self.process.id() as i32) else {
            return;
        };
        if kill_process(pid, Signal::TERM).is_err() {
            return;
        }
        let give_up = Instant::now() + patience;
        while let Ok(None) = self.process.try_wait() {
            if Instant::now() > give_up {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

fn ended(name: &str, heard: &Heard) -> RunError {
    RunError::Failed(format!("`{name}` ended by itself{}", last(heard)))
}

fn last(heard: &Heard) -> String {
    let is_error = |line: &&String| line.starts_with("error:");
    let is_something = |line: &&String| !line.trim().is_empty();
    let named = heard.lines.iter().find(is_error);
    let said = named.or_else(|| heard.lines.iter().rfind(is_something));
    said.map_or(String::new(), |line| format!(": {line}"))
}

fn listen(errors: impl Read, heard: &(Mutex<Heard>, Condvar)) {
    let mut reader = BufReader::new(errors);
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        let mut kept = heard.0.lock().expect("no holder panics");
        kept.is_ready |= text == "READY";
        kept.lines.push_back(text);
        if kept.lines.len() > LINES_MAX {
            kept.lines.pop_front();
        }
        heard.1.notify_all();
    }
    heard.0.lock().expect("no holder panics").has_ended = true;
    heard.1.notify_all();
}
