//! Pages of the admin port.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::coordinator::Coordinator;

/// Where the admin port of a coordinator is, which says so when it listens.
pub(crate) async fn admin_address(coordinator: &Coordinator) -> SocketAddr {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        for line in coordinator.log().lines() {
            let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else {
                continue;
            };
            if event["message"] == "admin port" {
                return event["address"].as_str().unwrap().parse().unwrap();
            }
        }
        assert!(Instant::now() < deadline, "there is no admin port");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The head and the body of an answer.
pub(crate) async fn get(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: admin\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}
