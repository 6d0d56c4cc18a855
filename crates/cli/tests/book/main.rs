//! The book (`docs/`, and the README) says nothing that does not work: every
//! command on its pages is run, in two namespaces and in homes of their own, and
//! must print what the page says it prints; every flag anywhere in it exists; every
//! link leads somewhere; every page is in the table of contents.
//!
//! Where namespaces are not allowed the pages are not run, which is said; the rest
//! is checked.

#[path = "../common/mod.rs"]
mod common;
mod flags;
mod links;
mod mistakes;
mod newcomer;
mod page;
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ctcp_emu::{Namespace, enter_user_namespace};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let namespaces = if arguments.list {
        Ok(())
    } else {
        try_namespaces()
    };
    let mut trials = vec![
        trial("a_page_becomes_its_steps", page::a_page_becomes_its_steps),
        trial("every_page_can_be_read", every_page_can_be_read),
        trial("every_flag_exists", flags::every_flag_exists),
        trial(
            "every_link_leads_somewhere",
            links::every_link_leads_somewhere,
        ),
        trial(
            "every_page_is_in_the_contents",
            links::every_page_is_in_the_contents,
        ),
    ];
    match namespaces {
        Ok(()) => {
            // A user namespace of one's own does not let sshd change its groups.
            let setgroups = fs::read_to_string("/proc/self/setgroups").unwrap_or_default();
            let is_root = rustix::process::geteuid().is_root() && setgroups.trim() != "deny";
            let newcomer = move || newcomer::a_newcomer_gets_a_page_and_a_folder(is_root);
            trials.push(trial("a_newcomer_gets_a_page_and_a_folder", newcomer));
            let mistakes = move || mistakes::mistakes_are_answered_with_the_remedy(is_root);
            trials.push(trial("mistakes_are_answered_with_the_remedy", mistakes));
            for path in pages() {
                let name = shown(&path);
                let steps = steps(&path);
                if !steps.is_empty() {
                    trials.push(trial(&name, move || world::run(&path, &steps, is_root)));
                }
            }
        }
        Err(reason) => eprintln!("SKIPPED: the pages' commands: {reason}"),
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

fn try_namespaces() -> Result<(), String> {
    enter_user_namespace().map_err(|error| error.to_string())?;
    Namespace::new("trial").map_err(|error| error.to_string())?;
    let kind = ctcp_emu::preflight::network();
    kind.map(drop).map_err(|error| error.to_string())
}

/// The root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    here.canonicalize().expect("it exists")
}

/// The README and every page of the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

fn shown(path: &Path) -> String {
    let inside = path.strip_prefix(root()).expect("it is inside");
    inside.display().to_string()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("UTF-8")
}

/// The steps of a page; none if it cannot be read, which its own test says.
fn steps(path: &Path) -> Vec<page::Step> {
    page::steps(&read(path)).unwrap_or_default()
}

fn every_page_can_be_read() {
    for path in pages() {
        if let Err(what) = page::steps(&read(&path)) {
            panic!("{}: {what}", shown(&path));
        }
    }
}
