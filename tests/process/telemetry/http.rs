//! Requests as a browser or a program without gRPC sends them.

use std::net::SocketAddr;

use crate::prelude::*;

/// The head and the body of a page.
pub(crate) async fn get(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let headers = format!("Accept: {accept}\r\n");
    ask(address, &format!("GET {path}"), &headers, "").await
}

/// The head and the body of the answer to a request with a body of JSON.
pub(crate) async fn send(address: SocketAddr, target: &str, body: &str) -> (String, String) {
    let length = body.len();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
    ask(address, target, &headers, body).await
}

/// A target is a method and a path.
async fn ask(address: SocketAddr, target: &str, headers: &str, body: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request =
        format!("{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n{body}");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}
