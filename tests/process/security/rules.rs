//! Rules and quotas are read again while the coordinator runs.

use std::{cell::Cell, fs};

use tonic::transport::Channel;

use super::{eventually, try_acquire};
use crate::prelude::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn rule(identity: &str, prefix: &str) -> String {
    format!(
        "[[access.rules]]\nidentity = \"{identity}\"\nprefix = \"{prefix}\"\n\
         allow = [\"acquire\", \"release\"]\n"
    )
}

async fn may(channel: &Channel, name: &str) -> bool {
    match try_acquire(channel, name, "o", Some(TOKEN)).await {
        Ok(acquired) => acquired,
        Err(refused) => {
            assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
            false
        }
    }
}

#[tokio::test]
async fn rules_that_change_count_at_once_and_a_broken_file_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let (file, tokens) = (folder.path().join("config"), folder.path().join("tokens"));
    fs::write(&tokens, format!("alice {TOKEN}\n")).unwrap();
    fs::write(&file, rule("alice", "a/")).unwrap();
    let settings = Settings::on("embedded:")
        .with("auth.token_file", &tokens.display().to_string())
        .with_file(&file);
    let coordinator = Coordinator::start(&settings).await;
    let channel = coordinator.client().await.channel();
    assert!(may(&channel, "a/1").await);
    assert!(!may(&channel, "b/1").await);
    fs::write(&file, rule("alice", "b/")).unwrap();
    eventually("the new rule counts", || may(&channel, "b/1")).await;
    assert!(!may(&channel, "a/2").await);
    let told = || {
        let log = coordinator.log();
        let line = log.lines().find(|line| line.contains("\"Reload\""));
        line.map(str::to_owned).unwrap_or_default()
    };
    let line = told();
    assert!(
        line.contains("added: alice \\\"b/\\\" [Acquire, Release]"),
        "{line}"
    );
    assert!(line.contains("removed: alice \\\"a/\\\""), "{line}");
    let others = "limits.sessions_max = 7\nserver.drain_grace = \"9s\"\n";
    fs::write(&file, [others, &rule("alice", "b/")].concat()).unwrap();
    let warning = "\"keys\":\"limits.sessions_max, server.drain_grace\"";
    coordinator.until_logged(warning).await;
    let reloads = coordinator.log().matches("\"Reload\"").count();
    assert_eq!(reloads, 1, "the rules are the same: {}", coordinator.log());
    for broken in [
        "[[access.rules]\n",
        "[[access.rules]]\nidentity = 1\n",
        "",
        "session.secret = \"short\"\n",
    ] {
        fs::write(&file, broken).unwrap();
        let errors = || coordinator.log().matches("not reloaded").count();
        let before = errors();
        eventually("it is logged", || async { errors() > before }).await;
        assert!(may(&channel, &format!("b/{before}")).await);
        assert!(!may(&channel, "a/2").await);
        assert_eq!(errors(), before + 1, "{}", coordinator.log());
    }
    let path = format!("{}: ", file.display());
    assert!(!coordinator.log().contains(&path.repeat(2)), "named once");
    fs::write(&file, rule("*", "a/")).unwrap();
    eventually("it is usable again", || may(&channel, "a/3")).await;

    let quota = "[access.quotas]\ngrants = 1\n";
    fs::write(&file, [quota, &rule("*", "a/")].concat()).unwrap();
    let number = Cell::new(0);
    let is_refused = || async {
        let name = format!("a/more/{}", number.replace(number.get() + 1));
        let tried = try_acquire(&channel, &name, "o", Some(TOKEN)).await;
        tried.is_err_and(|it| it.code() == Code::ResourceExhausted)
    };
    eventually("the new quota counts", is_refused).await;
}
