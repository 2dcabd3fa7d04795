//! Opening a session.

use std::{io::Write as _, time::Duration};

use anyhow::{Result, ensure};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::time::Instant;
use tonic::{
    Code,
    transport::{Identity, ServerTlsConfig},
};

use crate::{messages::LEASE, stage::Stage};

/// A port on which nobody listens.
fn refusing() -> Result<(std::net::TcpListener, String)> {
    // A bound socket that never accepts would take connections: one that is closed refuses.
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    Ok((listener, url))
}

fn file(text: &str) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

pub(super) async fn a_session_is_opened_as_asked_for(stage: &mut Stage) -> Result<()> {
    let connecting = stage.driver.send(stage.connect_command()).await?;
    let mut stream = stage.accept(0).await?;
    let open = stream.expect_open().await?;
    ensure!(open.lease == LEASE.try_into().ok(), "another lease");
    ensure!(open.client_name == "conformance", "another name");
    ensure!(
        !stage.driver.is_answered(connecting),
        "connected before it is"
    );
    stream.opened();
    stage.driver.ok(connecting).await?;
    Ok(())
}

pub(super) async fn the_next_endpoint_is_tried(stage: &mut Stage) -> Result<()> {
    let connecting = stage.driver.send(stage.connect_command()).await?;
    let mut first = stage.accept(0).await?;
    first.expect_open().await?;
    first.refuse(Code::Unavailable, "DRAINING");
    let mut second = stage.accept(1).await?;
    second.expect_open().await?;
    second.opened();
    stage.driver.ok(connecting).await?;
    Ok(())
}

pub(super) async fn a_refusal_ends_the_attempt(stage: &mut Stage) -> Result<()> {
    let connecting = stage.driver.send(stage.connect_command()).await?;
    let mut stream = stage.accept(0).await?;
    stream.expect_open().await?;
    stream.refuse(Code::InvalidArgument, "INVALID_LEASE");
    let failure = stage.driver.fails(connecting, "refused").await?;
    ensure!(failure.reason == "INVALID_LEASE", "{failure:?}");
    ensure!(!stage.has_come(1), "another coordinator was asked");
    Ok(())
}

pub(super) async fn nobody_there_is_named(stage: &mut Stage) -> Result<()> {
    let (listener, url) = refusing()?;
    drop(listener);
    let begun = Instant::now();
    let command = json!({ "do": "connect", "endpoints": [url] });
    let connecting = stage.driver.send(command).await?;
    let failure = stage.driver.fails(connecting, "unreachable").await?;
    let address = url.trim_start_matches("http://");
    ensure!(failure.message.contains(address), "{failure:?}");
    ensure!(!failure.message.contains('\n'), "{failure:?}");
    ensure!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    Ok(())
}

pub(super) async fn a_silent_coordinator_is_given_up(stage: &mut Stage) -> Result<()> {
    let begun = Instant::now();
    let command = json!({ "do": "connect", "endpoints": [stage.endpoints()[0]] });
    let connecting = stage.driver.send(command).await?;
    let mut stream = stage.accept(0).await?;
    stream.expect_open().await?;
    stage.driver.fails(connecting, "unreachable").await?;
    ensure!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    Ok(())
}

pub(super) async fn missing_credentials_are_a_refusal(stage: &mut Stage) -> Result<()> {
    let connecting = stage.driver.send(stage.connect_command()).await?;
    let mut stream = stage.accept(0).await?;
    stream.expect_open().await?;
    stream.refuse(Code::Unauthenticated, "UNAUTHENTICATED");
    let failure = stage.driver.fails(connecting, "refused").await?;
    ensure!(failure.reason == "UNAUTHENTICATED", "{failure:?}");
    Ok(())
}

pub(super) async fn a_token_is_sent(stage: &mut Stage) -> Result<()> {
    let mut command = stage.connect_command();
    command["token"] = json!("a-token");
    stage.driver.send(command).await?;
    let stream = stage.accept(0).await?;
    let header = stream.metadata.get("authorization");
    let header = header.and_then(|it| it.to_str().ok());
    ensure!(header == Some("Bearer a-token"), "{header:?}");
    Ok(())
}

pub(super) async fn a_token_file_is_read_again(stage: &mut Stage) -> Result<()> {
    let token = file("first\n")?;
    let mut command = stage.connect_command();
    command["token_file"] = json!(token.path());
    let connecting = stage.driver.send(command).await?;
    let mut stream = stage.accept(0).await?;
    stream.expect_open().await?;
    let header = stream.metadata.get("authorization").cloned();
    ensure!(header.is_some_and(|it| it == "Bearer first"), "the first");
    stream.opened();
    stage.driver.ok(connecting).await?;
    std::fs::write(token.path(), "second\n")?;
    stream.break_off();
    let (stream, _) = stage.resumed(1).await?;
    let header = stream.metadata.get("authorization").cloned();
    ensure!(header.is_some_and(|it| it == "Bearer second"), "the second");
    Ok(())
}

/// A coordinator with a certificate of its own, and that certificate.
async fn with_tls(stage: &mut Stage) -> Result<(usize, String, String)> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let identity = Identity::from_pem(cert.pem(), signing_key.serialize_pem());
    let number = stage
        .add_tls(ServerTlsConfig::new().identity(identity))
        .await?;
    let port = stage.coordinators[number].address.port();
    Ok((number, cert.pem(), format!("https://localhost:{port}")))
}

pub(super) async fn a_certificate_of_another_authority_is_refused(stage: &mut Stage) -> Result<()> {
    let (_, _, url) = with_tls(stage).await?;
    let (_, other, _) = with_tls(stage).await?;
    let authority = file(&other)?;
    let begun = Instant::now();
    let command = json!({ "do": "connect", "endpoints": [url], "ca_file": authority.path() });
    let connecting = stage.driver.send(command).await?;
    let failure = stage.driver.failure(connecting).await?;
    let is_told = ["unreachable", "refused"].contains(&failure.kind.as_str());
    ensure!(is_told && !failure.message.contains('\n'), "{failure:?}");
    ensure!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    Ok(())
}

pub(super) async fn a_known_authority_is_trusted(stage: &mut Stage) -> Result<()> {
    let (number, certificate, url) = with_tls(stage).await?;
    let authority = file(&certificate)?;
    let command = json!({ "do": "connect", "endpoints": [url], "ca_file": authority.path() });
    let connecting = stage.driver.send(command).await?;
    let mut stream = stage.accept(number).await?;
    stream.expect_open().await?;
    stream.opened();
    stage.driver.ok(connecting).await?;
    Ok(())
}

pub(super) async fn plain_text_to_a_tls_port_fails(stage: &mut Stage) -> Result<()> {
    let (number, _, _) = with_tls(stage).await?;
    let url = stage.coordinators[number].url();
    let command = json!({ "do": "connect", "endpoints": [url] });
    let connecting = stage.driver.send(command).await?;
    let failure = stage.driver.failure(connecting).await?;
    ensure!(!failure.message.contains('\n'), "{failure:?}");
    Ok(())
}
