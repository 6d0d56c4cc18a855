//! UDP through `ctcp client` and `ctcp server`, as an application asks for it by SOCKS5.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::{Ctcp, Key, start_client, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends back what comes, and tells who sent it.
fn echo() -> (UdpSocket, Receiver<SocketAddr>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let (sender, receiver) = channel();
    let own = socket.try_clone().expect("a second handle");
    thread::spawn(move || {
        let mut buf = [0; 4096];
        while let Ok((len, from)) = own.recv_from(&mut buf) {
            let _ = own.send_to(&buf[..len], from);
            if sender.send(from).is_err() {
                return;
            }
        }
    });
    (socket, receiver)
}

/// An application with an association.
struct Application {
    /// The association lives as long as this.
    tcp: TcpStream,
    udp: UdpSocket,
}

impl Application {
    fn new(socks: SocketAddr) -> Self {
        let mut tcp = TcpStream::connect(socks).expect("it listens");
        tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0])
            .expect("open");
        let mut answer = [0; 12];
        tcp.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer[..6], [5, 0, 5, 0, 0, 1], "an IPv4 association");
        let ip = Ipv4Addr::new(answer[6], answer[7], answer[8], answer[9]);
        let port = u16::from_be_bytes([answer[10], answer[11]]);
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        udp.connect((ip, port)).expect("loopback");
        udp.set_read_timeout(Some(Duration::from_millis(500)))
            .expect("a timeout");
        Self { tcp, udp }
    }

    fn send(&self, fragment: u8, target: &[u8], data: &[u8]) {
        let bytes = [&[0, 0, fragment], target, data].concat();
        self.udp.send(&bytes).expect("sent");
    }

    /// Sends until it comes back; whatever else comes is handed to `on_other`.
    fn echoed(&self, target: &[u8], from: &[u8], data: &[u8], mut on_other: impl FnMut(&[u8])) {
        let expected = [&[0, 0, 0], from, data].concat();
        let begun = Instant::now();
        let mut buf = [0; 4096];
        self.send(0, target, data);
        loop {
            assert!(
                begun.elapsed() < PATIENCE,
                "no echo of {} bytes",
                data.len()
            );
            match self.udp.recv(&mut buf) {
                Ok(len) if buf[..len] == expected => return,
                Ok(len) => on_other(&buf[..len]),
                // A datagram may be lost on a busy machine: the next one.
                Err(_) => self.send(0, target, data),
            }
        }
    }
}

/// `type | address | port` of an IPv4 address.
fn address(of: &UdpSocket) -> Vec<u8> {
    let port = of.local_addr().expect("bound").port().to_be_bytes();
    [&[1, 127, 0, 0, 1], &port[..]].concat()
}

#[test]
fn datagrams_reach_allowed_targets_and_only_answers_come_back() {
    let (server_key, client_key) = (Key::generate(), Key::generate());
    let ((near, near_heard), (denied, denied_heard)) = (echo(), echo());
    let deny = denied.local_addr().expect("bound").to_string();
    let server = Ctcp::start(&[
        "server",
        "--listen",
        "127.0.0.1:0",
        "--key",
        server_key.path(),
        "--allow",
        &client_key.public,
        "--egress-allow",
        "127.0.0.0/8",
        "--egress-deny",
        &deny,
    ]);
    let listening = server.result("listening");
    let client = start_client(&listening, &server_key, &client_key, &[]);
    let socks = client.result("socks5").parse().expect("an address");
    let application = Application::new(socks);
    let here = address(&near);
    let no_other = |other: &[u8]| {
        // A first try may still come, late: the same bytes, or an older size.
        assert_eq!(other[..3 + here.len()], [&[0, 0, 0], &here[..]].concat());
        assert_ne!(&other[3 + here.len()..], b"stranger");
    };

    // Any size that a packet of the tunnel carries, and nothing at all.
    for len in [1, 0, 512, 1300] {
        application.echoed(&here, &here, &vec![len as u8; len], no_other);
    }
    // A name is resolved at the far side.
    let port = near.local_addr().expect("bound").port();
    let named = [&[3, 9], &b"localhost"[..], &port.to_be_bytes()].concat();
    let mut local = None;
    let resolves_to_v4 =
        std::net::ToSocketAddrs::to_socket_addrs(&("localhost", port)).is_ok_and(|mut found| {
            local = found.next();
            local.is_some_and(|address| address.is_ipv4())
        });
    if resolves_to_v4 {
        application.echoed(&named, &here, b"by name", no_other);
    } else {
        eprintln!("SKIPPED: localhost is {local:?} here, the echo has IPv4");
    }

    // What must not pass: a denied target, a fragment, a strange address type, an end
    // in the middle, and what no packet carries.
    application.send(0, &address(&denied), b"denied");
    application.send(1, &here, b"fragment");
    application.send(0, &[9, 9, 9], b"strange");
    application.send(0, &[1, 127], b"");
    application.send(0, &here, &[7; 3000]);
    // Who was not sent to does not get through either.
    let far = near_heard.recv_timeout(PATIENCE).expect("it was heard");
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    stranger.send_to(b"stranger", far).expect("sent");
    for round in 0..20 {
        application.echoed(&here, &here, &[round, 0xFE], |other| {
            no_other(other);
            assert_ne!(&other[3 + here.len()..], b"fragment");
            assert!(other.len() < 1400, "{} bytes", other.len());
        });
    }
    assert!(
        denied_heard.try_recv().is_err(),
        "the denied target heard it"
    );

    // Another application has another association.
    let second = Application::new(socks);
    second.echoed(&here, &here, b"second", no_other);

    // The association ends with its TCP connection.
    let Application { tcp, udp } = application;
    drop(tcp);
    wait_until("the port is closed", PATIENCE, || {
        let refused = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        let sent = udp.send(&[0; 10]);
        sent.is_err_and(|error| refused(&error))
            || udp.recv(&mut [0; 9]).is_err_and(|e| refused(&e))
    });
    second.echoed(&here, &here, b"still", no_other);
}
