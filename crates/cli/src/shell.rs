//! `ctcp completions` and `ctcp man`: made from the same description as the
//! command line itself.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;

/// Arguments of `ctcp completions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `ctcp man`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder, instead of the main page to
    /// stdout
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the completion script.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ctcp", &mut script);
    write_stdout(&script)
}

/// Prints the man page, or writes all of them.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    match &args.out {
        None => {
            let mut page = Vec::new();
            render(command, &mut page).map_err(Failure::failed)?;
            write_stdout(&page)
        }
        Some(folder) => {
            let mut command = command;
            command.build();
            let made = std::fs::create_dir_all(folder);
            made.and_then(|()| pages(&command, "ctcp", folder))
                .map_err(|error| {
                    Failure::usage(format!("cannot write into {}: {error}", folder.display()))
                })
        }
    }
}

fn pages(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    let mut page = Vec::new();
    render(command.clone().name(name.to_owned()), &mut page)?;
    std::fs::write(folder.join(format!("{name}.1")), page)?;
    let visible = command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help");
    for sub in visible {
        pages(sub, &format!("{name}-{}", sub.get_name()), folder)?;
    }
    Ok(())
}

fn render(command: Command, page: &mut Vec<u8>) -> io::Result<()> {
    clap_mangen::Man::new(command).render(page)
}

/// A reader that has seen enough (`| head`) is no failure.
fn write_stdout(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(error)),
        _ => Ok(()),
    }
}
