//! A headless Chromium, driven by its own protocol over two pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// One page in a browser of its own.
pub struct Chromium {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// What went wrong in the page.
    errors: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Chromium {
    /// Whether it can be run; says so if not.
    pub fn is_there() -> bool {
        super::has("chromium", "chromium") && super::has("mkfifo", "coreutils")
    }

    /// Opens `url` in a window of the given size.
    pub fn open(url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let made = Command::new("mkfifo")
            .args([at("to"), at("from")])
            .status()
            .expect("mkfifo runs");
        assert!(made.success());
        // The protocol wants descriptors 3 and 4.
        let child = Command::new("sh")
            .arg("-c")
            .arg(
                "exec chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
                 --remote-debugging-pipe --user-data-dir=\"$1/profile\" about:blank 3<\"$1/to\" 4>\"$1/from\"",
            )
            .args(["sh", &folder.path().display().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        let to = OpenOptions::new()
            .write(true)
            .open(at("to"))
            .expect("a pipe");
        let from = File::open(at("from")).expect("a pipe");
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|len| len > 0) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message) {
                    let _ = sender.send(value);
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            to,
            from: receiver,
            session: String::new(),
            next: 0,
            errors: Vec::new(),
            _folder: folder,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().expect("a name").to_owned();
        browser.call("Runtime.enable", json!({}));
        browser.call("Log.enable", json!({}));
        browser.look(1200, 900, "light");
        browser.call("Page.navigate", json!({ "url": url }));
        browser
    }

    /// Sets size and colours.
    pub fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", scheme);
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let evaluated = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true }),
        );
        evaluated["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let start = Instant::now();
        while self.value(expression) != Value::Bool(true) {
            assert!(start.elapsed() < PATIENCE, "in vain: {expression}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// A picture of the page, as PNG in base64.
    pub fn picture(&mut self) -> String {
        let taken = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        taken["data"].as_str().expect("a picture").to_owned()
    }

    /// Exceptions and what the browser forbade, so far.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            let message = self.from.recv_timeout(PATIENCE).expect("an answer");
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(params.to_string()),
            // That a server does not answer while it is restarted is no error.
            Some("Log.entryAdded")
                if params["entry"]["level"] == "error"
                    && params["entry"]["source"] != "network" =>
            {
                self.errors.push(params.to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
