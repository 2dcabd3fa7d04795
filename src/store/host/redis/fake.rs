//! A fake Redis server for unit tests.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use super::{RedisConfig, endpoint::Endpoint};
use crate::host::Script;

pub(super) const OK: &str = "+OK\r\n";

type Answer = dyn Fn(&[&str]) -> String + Send + Sync;

/// Starts a server that answers each command so, in the form of the protocol. Returns its port.
pub(super) fn start(answer: impl Fn(&[&str]) -> String + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer: Arc<Answer> = Arc::new(answer);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || serve(&client, &*answer));
        }
    });
    port
}

/// The endpoint of the server at this port.
pub(super) fn endpoint(port: u16) -> Endpoint {
    static NOTHING: Script = Script::new("nothing", "return 0");
    static SCRIPTS: [&Script; 1] = [&NOTHING];
    let config = RedisConfig {
        scripts: &SCRIPTS,
        url: format!("redis://127.0.0.1:{port}"),
        ..RedisConfig::default()
    };
    Endpoint::new(&config).unwrap()
}

/// How a server confirms that a subscription has begun or ended.
pub(super) fn confirmation(kind: &str, channel: &str) -> String {
    let word = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    format!(">3\r\n{}{}:0\r\n", word(kind), word(channel))
}

/// The answer of a server that knows no more than subscriptions.
pub(super) fn answer(words: &[&str]) -> String {
    match words {
        [verb, channels @ ..] if verb.ends_with("SUBSCRIBE") => {
            let kind = verb.to_lowercase();
            channels.iter().map(|it| confirmation(&kind, it)).collect()
        }
        _ => OK.to_owned(),
    }
}

fn serve(mut client: &TcpStream, answer: &Answer) {
    let mut lines = BufReader::new(client).lines().map_while(Result::ok);
    while let Some(head) = lines.next() {
        let count: usize = head[1..].parse().unwrap();
        // Each word comes after its length.
        let words: Vec<String> = lines.by_ref().take(2 * count).skip(1).step_by(2).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if client.write_all(answer(&words).as_bytes()).is_err() {
            return;
        }
    }
}
