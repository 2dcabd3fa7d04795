//! What others write to a shared Redis, and a tenant makes the coordinator read.

use std::time::Duration;

use lockkeeper_api::pb::{self, lock_admin_service_client::LockAdminServiceClient};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink},
    net::TcpStream,
    time::sleep,
};

use super::Did;
use crate::{
    client::acquire_request,
    prelude::*,
    scene::{KEY_PREFIX, Who},
    target::Target,
    time::{millis, secs},
};

const HUGE: &str = "tenant/huge";

/// Plants a holder of 200 MB.
pub(crate) async fn huge_holder_planted(target: Target) -> Did {
    let plant = "local megabyte = string.rep('x', 1048576)
        redis.call('HSET', KEYS[1], string.rep(megabyte, 200), 1)";
    let mut stream = connect(&target).await;
    let eval = command(&["EVAL", plant, "1", &format!("{KEY_PREFIX}{HUGE}")]);
    stream.write_all(eval.as_bytes()).await.unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.unwrap();
    match &answer {
        b"$-1\r\n" => Ok("a holder of 200 MB".to_owned()),
        _ => Err(format!("{answer:?}")),
    }
}

async fn connect(target: &Target) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", target.redis.port())).await;
    stream.unwrap()
}

/// A command as Redis reads it.
fn command(words: &[&str]) -> String {
    let count = format!("*{}\r\n", words.len());
    let words = words.iter().map(|it| format!("${}\r\n{it}\r\n", it.len()));
    std::iter::once(count).chain(words).collect()
}

/// Describes it and lists it.
pub(crate) async fn huge_holder_described(target: Target) -> Did {
    let client = target.client(Who::Tenant).await;
    let described = target.storm(4, |task| {
        let mut api = client.api.clone();
        let mut admin = LockAdminServiceClient::new(client.caller());
        async move {
            if task % 2 == 0 {
                let name = HUGE.to_owned();
                api.describe(pb::DescribeRequest { name }).await.is_ok()
            } else {
                let request = pb::ListLocksRequest {
                    prefix: "tenant/".to_owned(),
                    ..Default::default()
                };
                admin.list_locks(request).await.is_ok()
            }
        }
    });
    Ok(format!("Describe and ListLocks: {}", described.await))
}

/// Messages on the channel of a lock that the tenant waits for, some hundred thousand a second. Of
/// more the store itself would be the victim.
pub(crate) async fn published(target: Target) -> Did {
    const MESSAGES: usize = 200;
    const PAUSE: Duration = millis(2);
    let name = "tenant/published";
    let mut client = target.client(Who::Tenant).await;
    let held = client.try_acquire(name, "holder", secs(60)).await;
    held.map_err(|why| why.to_string())?;
    let waits = acquire_request(name, "waiter").lasting(secs(60));
    let mut wait = client.acquire(waits).await.map_err(|it| it.to_string())?;
    wait.expect_waiting().await;
    let channel = format!("redisson_lock__channel:{{{KEY_PREFIX}{name}}}");
    let publish = command(&["PUBLISH", &channel, "0"]);
    let (mut read, write) = connect(&target).await.into_split();
    let write = tokio::sync::Mutex::new(write);
    let all = publish.repeat(MESSAGES);
    // A Redis that is not read from takes no more either.
    let reads = async { drop(copy(&mut read, &mut sink()).await) };
    let writes = target.storm(1, |_| async {
        let mut write = write.lock().await;
        sleep(PAUSE).await;
        write.write_all(all.as_bytes()).await.is_ok()
    });
    tokio::pin!(reads);
    let sent = tokio::select! {
        sent = writes => sent,
        () = &mut reads => return Err("the store closed the connection".to_owned()),
    };
    Ok(format!("{} messages", sent.done() * MESSAGES))
}
