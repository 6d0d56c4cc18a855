//! A page of the book as a list of steps.
//!
//! Commands stand in blocks of language `console` or `sh`. `NAME$ ` begins one on
//! the machine of that name, `$ ` one on the machine `here`; `\` at the end of a
//! line goes on; what follows is what it must print, spaces aside, with `…` for
//! what differs from run to run; `^C` ends it. A block of `sh` without such a
//! prompt is one script on `here`.
//!
//! Comments, which readers do not see, say what prose says to people:
//!
//! ```text
//! <!-- book: on NAME: SCRIPT -->      runs a script (may have many lines)
//! <!-- book: file NAME:PATH -->       the next block is the contents of a file
//! <!-- book: not run: REASON -->      the next block cannot run in a test
//! <!-- book: exit CODE -->            the next block's last command ends with CODE
//! <!-- book: needs PROGRAM … -->      the next block is skipped without them
//! <!-- book: fresh -->                all machines are new from here on
//! ```

/// What a page asks for, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Runs a script and expects it to succeed.
    Script { machine: String, text: String },
    /// Writes a file.
    File {
        machine: String,
        path: String,
        text: String,
    },
    /// Runs what a reader would type.
    Command(Command),
    /// Forgets all machines.
    Fresh,
}

/// A command and what the page says of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Command {
    pub(crate) machine: String,
    pub(crate) text: String,
    /// Lines of output.
    pub(crate) expected: Vec<String>,
    pub(crate) is_interrupted: bool,
    pub(crate) exit: i32,
    /// Programs without which it is skipped.
    pub(crate) needs: Vec<String>,
    /// Where it stands in the file.
    pub(crate) line: usize,
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// Line of its first line of text, from 1.
    pub(crate) line: usize,
}

/// All fenced blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    walk(page, |part| {
        if let Part::Block(block) = part {
            blocks.push(block);
        }
    });
    blocks
}

enum Part {
    Directive(String),
    Block(Block),
}

fn walk(page: &str, mut on: impl FnMut(Part)) {
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("<!-- book:") {
            let mut text = rest.to_owned();
            while !text.trim_end().ends_with("-->") {
                let Some((_, next)) = lines.next() else { break };
                text.push('\n');
                text.push_str(next);
            }
            let text = text.trim_end().trim_end_matches("-->").trim();
            on(Part::Directive(text.to_owned()));
        } else if let Some(language) = line.strip_prefix("```") {
            let language = language.trim().to_owned();
            let text: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| line.trim() != "```")
                .collect();
            on(Part::Block(Block {
                language,
                text: text.join("\n"),
                line: at + 2,
            }));
        }
    }
}

/// The steps of a page.
///
/// # Errors
/// What is wrong with it, with its line.
pub(crate) fn steps(page: &str) -> Result<Vec<Step>, String> {
    let (mut steps, mut error) = (Vec::new(), None);
    let mut next = Next::default();
    walk(page, |part| {
        let result = match part {
            Part::Directive(text) => next.take(&text, &mut steps),
            Part::Block(block) => std::mem::take(&mut next).apply(block, &mut steps),
        };
        if let Err(what) = result {
            error.get_or_insert(what);
        }
    });
    error.map_or(Ok(steps), Err)
}

/// What comments say about the next block.
#[derive(Default)]
struct Next {
    file: Option<(String, String)>,
    is_not_run: bool,
    exit: i32,
    needs: Vec<String>,
}

impl Next {
    fn take(&mut self, text: &str, steps: &mut Vec<Step>) -> Result<(), String> {
        let bad = || Err(format!("no such comment: book: {text}"));
        if text == "fresh" {
            steps.push(Step::Fresh);
        } else if let Some(rest) = text.strip_prefix("on ") {
            let Some((machine, script)) = rest.split_once(':') else {
                return bad();
            };
            steps.push(Step::Script {
                machine: machine.trim().to_owned(),
                text: script.trim().to_owned(),
            });
        } else if let Some(rest) = text.strip_prefix("file ") {
            let Some((machine, path)) = rest.split_once(':') else {
                return bad();
            };
            self.file = Some((machine.trim().to_owned(), path.trim().to_owned()));
        } else if let Some(reason) = text.strip_prefix("not run:") {
            if reason.trim().len() < 10 {
                return Err(format!("say why: book: {text}"));
            }
            self.is_not_run = true;
        } else if let Some(code) = text.strip_prefix("exit ") {
            let Ok(code) = code.trim().parse() else {
                return bad();
            };
            self.exit = code;
        } else if let Some(programs) = text.strip_prefix("needs ") {
            self.needs
                .extend(programs.split_whitespace().map(str::to_owned));
        } else {
            return bad();
        }
        Ok(())
    }

    fn apply(self, block: Block, steps: &mut Vec<Step>) -> Result<(), String> {
        if let Some((machine, path)) = self.file {
            let text = block.text + "\n";
            steps.push(Step::File {
                machine,
                path,
                text,
            });
            return Ok(());
        }
        if self.is_not_run || !is_runnable(&block.language) {
            return Ok(());
        }
        let mut commands = commands(&block)?;
        for command in &mut commands {
            command.needs.clone_from(&self.needs);
        }
        if let Some(last) = commands.last_mut() {
            last.exit = self.exit;
        }
        steps.extend(commands.into_iter().map(Step::Command));
        Ok(())
    }
}

/// Whether blocks of this language are commands.
pub(crate) fn is_runnable(language: &str) -> bool {
    matches!(language, "console" | "sh")
}

/// The machine and the command of a line with a prompt.
pub(crate) fn prompt(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once('$')?;
    let is_name = name.chars().all(|c| c.is_ascii_lowercase());
    let rest = rest.strip_prefix(' ')?;
    let machine = if name.is_empty() { "here" } else { name };
    is_name.then_some((machine, rest.trim_start()))
}

fn commands(block: &Block) -> Result<Vec<Command>, String> {
    let mut commands: Vec<Command> = Vec::new();
    if !block.text.lines().any(|line| prompt(line).is_some()) {
        if block.language == "console" {
            let line = block.line;
            return Err(format!("line {line}: no prompt in a block of `console`"));
        }
        let machine = "here".to_owned();
        let (text, line) = (block.text.clone(), block.line);
        return Ok(vec![Command {
            machine,
            text,
            line,
            ..Command::default()
        }]);
    }
    let mut lines = block.text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some((machine, text)) = prompt(line) {
            let mut text = text.to_owned();
            while text.ends_with('\\') {
                let Some((_, more)) = lines.next() else { break };
                text.push('\n');
                text.push_str(more);
            }
            commands.push(Command {
                machine: machine.to_owned(),
                text,
                line: block.line + at,
                ..Command::default()
            });
        } else if let Some(command) = commands.last_mut() {
            match line.trim() {
                "" | "…" => {}
                "^C" => command.is_interrupted = true,
                line => command.expected.push(line.to_owned()),
            }
        } else {
            let at = block.line + at;
            return Err(format!("line {at}: output before the first command"));
        }
    }
    Ok(commands)
}

/// Whether a line of output says what the page says: spaces do not count, `…`
/// stands for anything.
pub(crate) fn says(line: &str, expected: &str) -> bool {
    let collapse = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, mut from) = (collapse(line), 0);
    expected.split('…').map(collapse).all(|part| {
        let found = line[from..].find(&part);
        if let Some(at) = found {
            from += at + part.len();
        }
        found.is_some()
    })
}

/// The lines of `expected` that `output` does not have.
pub(crate) fn missing<'a>(output: &str, expected: &'a [String]) -> Vec<&'a str> {
    let is_missing = |expected: &&String| !output.lines().any(|line| says(line, expected));
    let missing = expected.iter().filter(is_missing);
    missing.map(String::as_str).collect()
}

/// Checks the reading of pages itself.
pub(crate) fn a_page_becomes_its_steps() {
    let page = "Text.\n\n<!-- book: on there: mkdir a\ncd a -->\n<!-- book: exit 3 -->\n\
                ```console\nhere$ one \\\n  two\nout  …put\n\n$ three\n^C\n```\n\n\
                <!-- book: not run: it needs a window -->\n```sh\nfour\n```\n\n```sh\nfive\n```\n";
    let steps = steps(page).expect("it is right");
    let script = Step::Script {
        machine: "there".to_owned(),
        text: "mkdir a\ncd a".to_owned(),
    };
    let command = |text: &str, line| Command {
        machine: "here".to_owned(),
        text: text.to_owned(),
        line,
        ..Command::default()
    };
    let first = Command {
        expected: vec!["out  …put".to_owned()],
        ..command("one \\\n  two", 7)
    };
    let second = Command {
        is_interrupted: true,
        exit: 3,
        ..command("three", 11)
    };
    let third = command("five", 21);
    let commands = [first, second, third].map(Step::Command);
    assert_eq!(steps[0], script);
    assert_eq!(steps[1..], commands);

    assert!(says("out   it put", "out …put"));
    assert!(!says("out it", "out …put"));
    assert!(!says("put out", "out …put"));
    for bad in [
        "<!-- book: nonsense -->",
        "<!-- book: not run: -->",
        "```console\nno prompt\n```",
    ] {
        assert!(super::page::steps(bad).is_err(), "{bad}");
    }
}
