//! Connections from the client's namespace to the server, directly or through a
//! SOCKS5 proxy.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ctcp_emu::Namespace;
use socket2::{Domain, Protocol, Socket, Type};

use crate::venue::RunError;
use crate::workload::deadline::{Deadline, LOOK};

/// How a flow's connections reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// By the kernel's TCP over the path.
    Direct,
    /// By the kernel's Multipath TCP over the paths.
    Multipath,
    /// Through the SOCKS5 proxy at this address of the client's namespace.
    Socks(SocketAddr),
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// Nothing came of it in time; over a path that loses much, that happens.
    Late,
    /// It was refused, or broke.
    Broken(io::Error),
    /// The whole run ends.
    Ended(RunError),
}

/// Connects within the deadline.
///
/// # Errors
/// [`DialError`].
pub(crate) fn dial(
    client: &Namespace,
    carrier: Carrier,
    target: SocketAddr,
    deadline: &Deadline,
) -> Result<TcpStream, DialError> {
    let (address, protocol) = match carrier {
        Carrier::Direct => (target, Protocol::TCP),
        Carrier::Multipath => (target, Protocol::MPTCP),
        Carrier::Socks(proxy) => (proxy, Protocol::TCP),
    };
    // The namespace is that of the thread that opens the socket.
    let opened = client
        .run(|| Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)))
        .map_err(|error| DialError::Broken(io::Error::other(error)))?;
    let socket = opened.map_err(DialError::Broken)?;
    connect(&socket, address, deadline)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).map_err(DialError::Broken)?;
    stream
        .set_read_timeout(Some(LOOK))
        .map_err(DialError::Broken)?;
    if matches!(carrier, Carrier::Socks(_)) {
        ask_proxy(&stream, target, deadline)?;
    }
    Ok(stream)
}

fn connect(socket: &Socket, address: SocketAddr, deadline: &Deadline) -> Result<(), DialError> {
    socket.set_nonblocking(true).map_err(DialError::Broken)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error)
            if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            wait_writable(socket, deadline)?;
            if let Some(error) = socket.take_error().map_err(DialError::Broken)? {
                return Err(DialError::Broken(error));
            }
        }
        Err(error) => return Err(DialError::Broken(error)),
    }
    socket.set_nonblocking(false).map_err(DialError::Broken)
}

fn wait_writable(socket: &Socket, deadline: &Deadline) -> Result<(), DialError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.subsec_nanos().into(),
    };
    loop {
        let mut waiting = [PollFd::new(socket, PollFlags::OUT)];
        match poll(&mut waiting, Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(DialError::Broken(error.into())),
        }
        if deadline.is_over().map_err(DialError::Ended)? {
            return Err(DialError::Late);
        }
    }
}

/// SOCKS5 without a password, CONNECT to an IPv4 address ([RFC1928] §3 to §6).
fn ask_proxy(
    mut stream: &TcpStream,
    target: SocketAddr,
    deadline: &Deadline,
) -> Result<(), DialError> {
    let SocketAddr::V4(target) = target else {
        return Err(DialError::Broken(io::ErrorKind::Unsupported.into()));
    };
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).map_err(DialError::Broken)?;
    let mut answer = [0; 12];
    read_exact(stream, &mut answer, deadline)?;
    match answer {
        [5, 0, 5, 0, ..] => Ok(()),
        [5, 0, 5, code, ..] => Err(DialError::Broken(io::Error::other(format!(
            "the SOCKS proxy refuses {target} with code {code}"
        )))),
        _ => Err(DialError::Broken(io::Error::other(
            "the SOCKS proxy wants a password, or is none",
        ))),
    }
}

fn read_exact(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    deadline: &Deadline,
) -> Result<(), DialError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read_some(&mut stream, &mut buffer[filled..], deadline) {
            Ok(Some(0)) => return Err(DialError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(Some(len)) => filled += len,
            Ok(None) => return Err(DialError::Late),
            Err(ReadError::Ended(error)) => return Err(DialError::Ended(error)),
            Err(ReadError::Broken(error)) => return Err(DialError::Broken(error)),
        }
    }
    Ok(())
}

/// Why nothing could be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Broken(io::Error),
    Ended(RunError),
}

/// Reads what there is, waiting for it: 0 bytes at the end of the stream, none at
/// the deadline. The reader has a timeout of [`LOOK`].
pub(crate) fn read_some(
    reader: &mut impl Read,
    buffer: &mut [u8],
    deadline: &Deadline,
) -> Result<Option<usize>, ReadError> {
    loop {
        if deadline.is_over().map_err(ReadError::Ended)? {
            return Ok(None);
        }
        match reader.read(buffer) {
            Ok(len) => return Ok(Some(len)),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(ReadError::Broken(error)),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    // A connection that died of old age reports TimedOut with a system error.
    matches!(error.kind(), WouldBlock | Interrupted)
        || (error.kind() == TimedOut && error.raw_os_error().is_none())
}

/// Waits until somebody listens at `address` in the namespace.
///
/// # Errors
/// Tells whether nobody came in time, or the run was interrupted.
pub(crate) fn wait_for_listener(
    namespace: &Namespace,
    address: SocketAddr,
    deadline: &Deadline,
) -> Result<(), DialError> {
    loop {
        match dial(namespace, Carrier::Direct, address, deadline) {
            Ok(_) => return Ok(()),
            Err(DialError::Broken(_)) => {}
            Err(other) => return Err(other),
        }
        let again = Instant::now() + Duration::from_millis(20);
        if !deadline.sleep_until(again).map_err(DialError::Ended)? {
            return Err(DialError::Late);
        }
    }
}

impl DialError {
    /// The same as an error of the run.
    pub(crate) fn into_run_error(self, what: &str) -> RunError {
        match self {
            Self::Ended(error) => error,
            Self::Late => RunError::Failed(format!("{what}: nothing within the time limit")),
            Self::Broken(error) => RunError::failed(what, error),
        }
    }
}
