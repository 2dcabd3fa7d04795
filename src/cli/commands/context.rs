//! Coordinators by name.

use std::path::{self, PathBuf};

use lockkeeper_client::{Address, Error};
use serde_json::json;

use super::ended::Ended;
use crate::{
    args::{ContextCommand, SetContextArgs},
    contexts::{Context, Contexts},
    exit,
    failure::{Effect, Failure},
    output::{Format, say, table},
};

pub(crate) fn context(command: ContextCommand) -> Ended {
    let contexts = Contexts::read().map_err(unusable)?;
    match command {
        ContextCommand::List { output } => list(&contexts, output)?,
        ContextCommand::Use { name } => make_current(contexts, name)?,
        ContextCommand::Set(args) => set(contexts, args)?,
        ContextCommand::Delete { name } => delete(contexts, &name)?,
    }
    Ok(exit::OK)
}

fn list(contexts: &Contexts, output: Format) -> Result<(), Failure> {
    let rows = contexts.contexts.iter().map(|(name, context)| {
        let is_current = contexts.current.as_ref() == Some(name);
        let file = |file: &Option<PathBuf>| {
            let shown = file.as_ref().map(|it| it.display().to_string());
            shown.unwrap_or_default()
        };
        [
            if is_current { "*" } else { "" }.to_owned(),
            name.clone(),
            context.server.clone().unwrap_or_default(),
            file(&context.token_file),
            file(&context.ca_file),
            file(&context.certificate_file),
        ]
    });
    let heads = [
        "",
        "NAME",
        "SERVER",
        "TOKEN FILE",
        "CA FILE",
        "CERTIFICATE FILE",
    ];
    let json = json!({ "current": contexts.current, "contexts": contexts.contexts });
    Ok(output.data(&table(heads, rows), &json)?)
}

fn make_current(mut contexts: Contexts, name: String) -> Result<(), Failure> {
    if !contexts.contexts.contains_key(&name) {
        return Err(unusable(contexts.unknown(&name)));
    }
    for variable in ["LOCKKEEPER_CONTEXT", "LOCKKEEPER_SERVER"] {
        if std::env::var_os(variable).is_some() {
            say(&format!(
                "{variable} is set, and is used before the current context"
            ));
        }
    }
    contexts.current = Some(name);
    contexts.write().map_err(unusable)
}

/// Files are kept with their whole paths, since commands run in any folder.
fn set(mut contexts: Contexts, args: SetContextArgs) -> Result<(), Failure> {
    let context = contexts.contexts.entry(args.name.clone()).or_default();
    change(
        &mut context.server,
        args.server.as_ref().map(Address::to_string),
    );
    let Context {
        server: _,
        ca_file,
        certificate_file,
        key_file,
        token_file,
    } = context;
    for (kept, given) in [
        (ca_file, args.ca_file),
        (certificate_file, args.certificate_file),
        (key_file, args.key_file),
        (token_file, args.token_file),
    ] {
        change(kept, given.map(path::absolute).transpose()?);
    }
    // The first is what is meant without a name.
    contexts.current.get_or_insert(args.name);
    contexts.write().map_err(unusable)
}

fn delete(mut contexts: Contexts, name: &str) -> Result<(), Failure> {
    if contexts.contexts.remove(name).is_none() {
        return Err(unusable(contexts.unknown(name)));
    }
    contexts.current = contexts.current.filter(|current| current != name);
    contexts.write().map_err(unusable)
}

/// What is given replaces what is kept.
fn change<T>(kept: &mut Option<T>, given: Option<T>) {
    *kept = given.or(kept.take());
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unusable(error: Error) -> Failure {
    Failure::from_error(&error, Effect::Reads)
}
