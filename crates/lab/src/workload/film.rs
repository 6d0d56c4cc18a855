//! A film of constant rate, made once by ffmpeg and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::venue::RunError;
use crate::workload::find_program;

/// Pictures per second.
pub(crate) const PICTURES_PER_SECOND: f64 = 25.0;

/// Share of the transport stream that is left for its headers and for what the
/// encoder overshoots by.
const STREAM_SHARE: f64 = 0.10;

/// A film: an MPEG transport stream whose bytes and time go together evenly.
#[derive(Debug, Clone)]
pub(crate) struct Film {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) duration_s: f64,
}

impl Film {
    /// Bytes of a second.
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.bytes.len() as f64 / self.duration_s
    }

    /// The film of this length and rate in `folder`, made if it is not there.
    ///
    /// The rate is that of the whole file. The transport stream is stuffed to a
    /// constant rate, so that a position in bytes is a position in time.
    pub(crate) fn load_or_make(
        folder: &Path,
        duration_s: f64,
        rate_mbit: f64,
    ) -> Result<Self, RunError> {
        let path = folder.join(format!("film-{duration_s}s-{rate_mbit:.3}mbit.ts"));
        if !path.exists() {
            fs::create_dir_all(folder)
                .map_err(|error| RunError::failed(folder.display(), error))?;
            let unfinished = folder.join(format!("unfinished-{}.ts", std::process::id()));
            let made = make(&unfinished, duration_s, rate_mbit);
            let kept = made.and_then(|()| {
                fs::rename(&unfinished, &path)
                    .map_err(|error| RunError::failed(path.display(), error))
            });
            if kept.is_err() {
                let _ = fs::remove_file(&unfinished);
            }
            kept?;
        }
        let bytes = fs::read(&path).map_err(|error| RunError::failed(path.display(), error))?;
        Ok(Self {
            path,
            bytes: Arc::new(bytes),
            duration_s,
        })
    }
}

fn make(path: &Path, duration_s: f64, rate_mbit: f64) -> Result<(), RunError> {
    let program = find_program("ffmpeg").unwrap_or_else(|| "ffmpeg".into());
    let stream = (rate_mbit * 1e6).round();
    let video = (stream * (1.0 - STREAM_SHARE)).round().to_string();
    // A test picture in noise: without it there is too little to encode.
    let source = format!(
        "testsrc2=size=640x360:rate={PICTURES_PER_SECOND}:duration={duration_s},\
         noise=alls=20:allf=t"
    );
    let output = Command::new(program)
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"])
        .args([
            "-f",
            "lavfi",
            "-i",
            &source,
            "-c:v",
            "mpeg2video",
            "-g",
            "12",
        ])
        .args(["-b:v", &video, "-minrate", &video, "-maxrate", &video])
        .args(["-bufsize", &(stream / 4.0).round().to_string()])
        .args(["-muxrate", &stream.to_string(), "-f", "mpegts"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| RunError::failed("cannot run ffmpeg (package ffmpeg)", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it says nothing");
    Err(RunError::failed("ffmpeg makes no film", last))
}
