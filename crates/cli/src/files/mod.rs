//! `ctcp send` and `ctcp receive`: files and folders from one machine to
//! another, without a proxy between.
//!
//! One end listens and the other connects; which is which does not depend on who
//! sends. The listening end shows an invite, which pairs the two for good. These
//! pairings are kept in `files/` of the state folder and give no right to use a
//! proxy.

mod bridge;
mod carry;
mod meet;
mod progress;
mod work;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use ctcp_files::{Name, ReceiveOptions, SendOptions, Source, Store};

use self::meet::{MeetArgs, Meeting};
use self::work::{Work, WorkKind};
use crate::failure::Failure;

/// Arguments of `ctcp send`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The other machine runs `ctcp receive`, which prints an invite:\n\
    \n\
    \x20 there$ ctcp receive --public there.example photos\n\
    \x20 here$  ctcp send ~/photos/ --to -            and paste the invite\n\
    \n\
    From then on `ctcp send PATH` is enough. If only this machine can be reached,\n\
    let it listen: `ctcp send PATH --listen 0.0.0.0:4501`, and `ctcp receive --from -`\n\
    there. A transfer that was interrupted goes on where it was: run it again."
)]
pub(crate) struct SendArgs {
    /// Files and folders. A folder that ends in `/`: what is in it. `-`: standard
    /// input, as one file
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Where to: `-` reads the invite of `ctcp receive` from stdin, FILE from a
    /// file; `paired` is who was paired with before
    #[arg(long, value_name = "INVITE", env = "CTCP_TO", conflicts_with_all = ["server", "listen"])]
    to: Option<String>,
    /// What standard input is called at the receiver
    #[arg(long, value_name = "NAME", default_value = "stdin", env = "CTCP_NAME")]
    name: String,
    /// Compare the contents of files even if size and time agree
    #[arg(long, env = "CTCP_CHECKSUM")]
    checksum: bool,
    #[command(flatten)]
    meet: MeetArgs,
}

/// Arguments of `ctcp receive`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Prints an invite for the machine that sends and ends when everything \
    has arrived:\n\
    \n\
    \x20 here$  ctcp receive --public here.example photos\n\
    \x20 there$ ctcp send ~/photos/ --to -            and paste the invite\n\
    \n\
    Files appear under their names when they are whole and verified. What an\n\
    interruption leaves (.ctcp-….part) is taken up by the next run."
)]
pub(crate) struct ReceiveArgs {
    /// Folder to receive into, made if it is not there. `-`: one file, to standard
    /// output
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Connect instead of listening: `-` reads the invite of `ctcp send --listen`
    /// from stdin, FILE from a file; `paired` is who was paired with before
    #[arg(long, value_name = "INVITE", env = "CTCP_FROM", conflicts_with_all = ["server", "listen"])]
    from: Option<String>,
    /// Leave files that are here and differ as they are
    #[arg(long, env = "CTCP_NO_OVERWRITE")]
    no_overwrite: bool,
    /// Go on listening for further transfers
    #[arg(long, env = "CTCP_FOREVER", conflicts_with_all = ["from", "server"])]
    forever: bool,
    #[command(flatten)]
    meet: MeetArgs,
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Sends, until the receiver has everything.
pub(crate) async fn send(args: SendArgs) -> Result<(), Failure> {
    let kind = if args.paths.iter().any(|path| is_dash(path)) {
        if args.paths.len() > 1 {
            return Err(Failure::usage(
                "`-` is one file by itself: send the other paths with another command",
            ));
        }
        if args.to.as_deref() == Some("-") {
            return Err(Failure::usage(
                "standard input cannot be both invite and contents: put the invite into a file, \
                 --to FILE",
            ));
        }
        let name = Name::new(args.name.as_bytes())
            .map_err(|error| Failure::usage(format!("--name {}: {error}", args.name)))?;
        WorkKind::SendPipe(name)
    } else {
        WorkKind::Send {
            source: Source::new(&args.paths).map_err(Failure::usage)?,
            options: SendOptions {
                is_compare: args.checksum,
            },
        }
    };
    let meeting = match (&args.meet.listen, args.to) {
        (Some(listen), _) => Meeting::Listen(*listen),
        (None, Some(invite)) => Meeting::Invite(invite),
        (None, None) => Meeting::Known,
    };
    let work = Work::new(kind);
    carry::carry(args.meet, meeting, work, false).await
}

/// Receives, until the sender is through.
pub(crate) async fn receive(args: ReceiveArgs) -> Result<(), Failure> {
    let kind = if is_dash(&args.folder) {
        if args.forever {
            return Err(Failure::usage(
                "standard output takes one file: leave --forever, or receive into a folder",
            ));
        }
        WorkKind::ReceivePipe
    } else {
        let store = Store::open(&args.folder).map_err(Failure::usage)?;
        WorkKind::Receive {
            store: Arc::new(Mutex::new(store)),
            options: ReceiveOptions {
                is_keeping: args.no_overwrite,
            },
        }
    };
    let meeting = match (&args.meet.listen, args.from) {
        (Some(listen), _) => Meeting::Listen(*listen),
        (None, Some(invite)) => Meeting::Invite(invite),
        (None, None) if args.meet.server.names_server() => Meeting::Known,
        (None, None) => Meeting::Listen(meet::DEFAULT_LISTEN),
    };
    let work = Work::new(kind);
    carry::carry(args.meet, meeting, work, args.forever).await
}
