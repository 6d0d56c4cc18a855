//! Programs in a namespace, which never outlive this process.
//!
//! A thread that has left for a new process namespace starts them: its first
//! child, a `cat` that reads from us, is that namespace's first process. When we
//! end, for whatever reason, its input ends, it ends, and the kernel ends all
//! other processes of the namespace.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};

/// How long the end of a namespace's programs is waited for. They are killed and
/// end at once unless the kernel is busy with them.
const END_MAX: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;

/// The thread that starts programs.
#[derive(Debug)]
pub(super) struct Launcher {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    holder_pid: u32,
}

impl Launcher {
    pub(super) fn start(name: &str, net: File) -> io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (started, start) = mpsc::channel();
        let thread =
            thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || match start_first(&net) {
                    Ok(first) => {
                        let _ = started.send(Ok(first.id()));
                        inbox.iter().for_each(|job| job());
                        end(first);
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                })?;
        let ended = |_| Err(io::Error::other("the thread ended"));
        Ok(Self {
            holder_pid: start.recv().unwrap_or_else(ended)?,
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    pub(super) fn holder_pid(&self) -> u32 {
        self.holder_pid
    }

    pub(super) fn spawn(&self, mut command: Command) -> io::Result<Process> {
        let (reply, answer) = mpsc::channel();
        let job = Box::new(move || {
            let _ = reply.send(command.spawn());
        });
        let gone = || io::Error::other("the thread that starts programs has ended");
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(job).map_err(|_| gone())?;
        let child = answer.recv().map_err(|_| gone())??;
        Ok(Process { child })
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes the calling thread one whose children live in `net` and in a process
/// namespace of their own, and starts the first of them.
fn start_first(net: &File) -> io::Result<Child> {
    setns(net, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Ends the first process and with it all others.
fn end(mut first: Child) {
    let _ = first.kill();
    let give_up = Instant::now() + END_MAX;
    // It stays until those that we have not waited for yet are waited for.
    while let Ok(None) = first.try_wait() {
        if Instant::now() > give_up {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A program in a namespace. Dropping it kills it and waits for its end; what it
/// has started ends with the namespace.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both do nothing if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
