//! A log that nobody reads, or that strangers fill, holds nobody up.

use std::{fs, process::Stdio};

use lockkeeper_api::pb::TryAcquireRequest;
use lockkeeper_testkit::coordinator::client_at;
use tokio::process::Command;
use tonic::Request;

use crate::prelude::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn tokens() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tokens");
    fs::write(&path, format!("known {TOKEN}\n")).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

fn asked(name: &str) -> Request<TryAcquireRequest> {
    let mut request = Request::new(try_request(name, "o").lasting(secs(60)));
    let header = format!("Bearer {TOKEN}").parse().unwrap();
    request.metadata_mut().insert("authorization", header);
    request
}

/// A slow collector of logs is enough, and an attacker makes it sure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_does_not_hold_up_calls_or_probes() {
    let (_folder, tokens) = tokens();
    let mut process = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(["--admin-listen", "127.0.0.1:0"])
        .args(["--set", &format!("auth.token_file={tokens}")])
        .env_clear()
        .env("LOCKKEEPER__LOG__FORMAT", "json")
        .env("LOCKKEEPER__LOG__LEVEL", "trace")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let mut address_of = async |message: &str| loop {
        let line = lines.next_line().await.unwrap().unwrap();
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        if event["message"] == message {
            return event["address"].as_str().unwrap().parse().unwrap();
        }
    };
    let serving = address_of("serving").await;
    let admin: std::net::SocketAddr = address_of("admin port").await;
    // From here on nobody reads, and the pipe takes 64 KiB.
    let mut client = client_at(serving).await;
    for number in 0..2000 {
        let name = number.to_string();
        let refused = client.try_acquire(&name, "o", secs(9));
        let refused = timeout(secs(10), refused).await.expect("an answer in time");
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }
    let begun = Instant::now();
    let tried = timeout(secs(10), client.api.try_acquire(asked("a"))).await;
    assert!(
        tried
            .expect("an answer in time")
            .unwrap()
            .into_inner()
            .acquired
    );
    let alive = async {
        let mut probe = TcpStream::connect(admin).await.unwrap();
        let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        probe.write_all(request).await.unwrap();
        let mut answer = String::new();
        probe.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let alive = timeout(secs(10), alive).await.expect("a probe in time");
    assert!(alive.starts_with("HTTP/1.1 200"), "{alive}");
    measured("a call and a probe", begun.elapsed());
    // It ends in time too, although what it has to say is not read.
    let pid = Pid::from_raw(process.id().unwrap().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let ended = timeout(secs(30), process.wait()).await;
    assert!(ended.expect("it ends").unwrap().success());
}

/// What is lost is counted and said, once it can be said again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_strangers_leave_few_and_short_lines() {
    // Each on a connection of its own: without credentials, one is read slowly.
    const CALLS: usize = 200;
    let (_folder, tokens) = tokens();
    let settings = Settings::on("embedded:")
        .with("auth.token_file", &tokens)
        .with("log.level", "info");
    let coordinator = Coordinator::start(&settings).await;
    let path = "x".repeat(8000);
    for _ in 0..CALLS {
        let stream = TcpStream::connect(coordinator.address()).await.unwrap();
        let (client, driver) = h2::client::handshake(stream).await.unwrap();
        let driver = lockkeeper_base::tasks::spawn_detached("connection", driver);
        let request = http::Request::post(format!("http://localhost/{path}"))
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        let mut client = client.ready().await.unwrap();
        let (answer, _) = client.send_request(request, true).unwrap();
        let answer = answer.await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "16");
        driver.abort();
    }
    eventually("the first is logged", || async {
        coordinator.log().contains("\"result\":\"denied\"")
    })
    .await;
    // Enough for the queue of lines to be written.
    tokio::time::sleep(millis(200)).await;
    let log = coordinator.log();
    let denied: Vec<_> = log.lines().filter(|it| it.contains("denied")).collect();
    assert!(denied.len() <= 2, "{} lines", denied.len());
    assert!(denied.iter().all(|it| it.len() < 600), "{denied:?}");
}
