//! `ctcp keygen`: a new identity.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::keys;
use crate::output::print_line;

/// Arguments of `ctcp keygen`.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeygenArgs {
    /// File for the private key; its mode will be 0600
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists; whoever used that key loses their identity
    #[arg(long)]
    force: bool,
}

/// Writes the private key to its file and the public key, alone, to stdout.
pub(crate) fn run(args: &KeygenArgs) -> Result<(), Failure> {
    let identity = keys::generate()?;
    keys::save(&args.out, &identity, args.force)?;
    print_line(&identity.public().to_string());
    Ok(())
}
