//! A port where nobody answers.

use std::net::Ipv4Addr;

use tokio::net::TcpSocket;

/// A port that refuses connections as long as this lives, because nobody listens there and nobody
/// else can.
pub struct RefusingPort {
    _socket: TcpSocket,
    pub number: u16,
}

impl RefusingPort {
    pub fn take() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        socket.bind(any).expect("there is a free port");
        let number = socket.local_addr().expect("it has an address").port();
        Self {
            _socket: socket,
            number,
        }
    }
}
