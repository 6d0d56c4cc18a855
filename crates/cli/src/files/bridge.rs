//! A half of a stream for code that blocks.

use std::io::{self, Read, Write};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;

/// Reads or writes by waiting in the runtime; for threads that may block.
#[derive(Debug)]
pub(super) struct Blocking<T> {
    runtime: Handle,
    pub(super) half: T,
}

impl<T> Blocking<T> {
    pub(super) fn new(half: T) -> Self {
        Self {
            runtime: Handle::current(),
            half,
        }
    }
}

impl<T: AsyncRead + Unpin> Read for Blocking<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(self.half.read(buf))
    }
}

impl<T: AsyncWrite + Unpin> Write for Blocking<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.half.write(buf))
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        self.runtime.block_on(self.half.write_all(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.half.flush())
    }
}
