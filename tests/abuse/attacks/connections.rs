//! Connections that say half of what they have to say.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
};

use super::Did;
use crate::{
    frames::{HEADERS, call, frame, opening},
    target::Target,
};

/// Addresses that connections come from: `127.0.0.2` and those after it.
const ADDRESSES: usize = 40;

/// Opens connections from many addresses, each of which says this by its number, and keeps as many
/// as the form says.
async fn opened(target: &Target, to: SocketAddr, says: impl Fn(usize) -> Vec<u8>) -> Did {
    let most = target.form.size(8000);
    let open: Mutex<Vec<Option<TcpStream>>> = Mutex::default();
    open.lock().resize_with(most, || None);
    let number = AtomicUsize::new(0);
    let tally = target.storm(50, |_| async {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let last = u8::try_from(2 + number % ADDRESSES).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind((Ipv4Addr::new(127, 0, 0, last), 0).into())
            .unwrap();
        let Ok(mut stream) = socket.connect(to).await else {
            return false;
        };
        let said = stream.write_all(&says(number)).await.is_ok();
        open.lock()[number % most] = Some(stream);
        said
    });
    Ok(format!("connections: {}", tally.await))
}

/// Silent ones, half prefaces and half headers on the port of the calls.
pub(crate) async fn half_handshakes(target: Target) -> Did {
    let mut half = opening();
    half.extend(frame(HEADERS, 0, 1, &call("TryAcquire")[..20]));
    let says = |number: usize| match number % 3 {
        0 => Vec::new(),
        1 => opening()[..10].to_vec(),
        _ => half.clone(),
    };
    opened(&target, target.address, says).await
}

/// Half requests on the admin port.
pub(crate) async fn half_requests(target: Target) -> Did {
    let says = |_| b"GET / HTTP/1.1\r\nhost: ".to_vec();
    opened(&target, target.admin, says).await
}
