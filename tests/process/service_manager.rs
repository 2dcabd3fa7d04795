//! What systemd is told by a service of `Type=notify`.

use std::{os::unix::net::UnixDatagram, process::Stdio};

use tokio::process::Command;

use crate::prelude::*;

#[tokio::test]
async fn the_service_manager_is_told_when_it_serves_and_when_it_stops() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(secs(15))).unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &path)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let said = || {
        let mut said = [0; 100];
        let length = socket.recv(&mut said).unwrap();
        String::from_utf8_lossy(&said[..length]).into_owned()
    };
    assert_eq!(said(), "READY=1\n");
    let pid = process.id().unwrap().try_into().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert_eq!(said(), "STOPPING=1\n");
    assert!(process.wait().await.unwrap().success());
}
