//! The proto files as pages of documentation, from their comments.

use std::{collections::HashMap, fmt::Write as _};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

const PACKAGE: &str = ".lockkeeper.v1.";

/// Field numbers in descriptors, which paths of comments are made of.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
/// Of a message and of an enum or service.
const FIELDS: i32 = 2;

const PAGES: [(&str, &str, &[&str]); 7] = [
    ("locks", "Locks", &["lock_service", "lock"]),
    ("sessions", "Sessions", &["session"]),
    (
        "semaphores",
        "Semaphores",
        &["semaphore_service", "semaphore"],
    ),
    ("latches", "Latches", &["latch_service", "latch"]),
    ("elections", "Elections", &["election_service", "election"]),
    ("admin", "Administration", &["admin_service", "admin"]),
    ("types", "Types", &["types"]),
];

/// A file with its comments by path.
struct File<'a> {
    proto: &'a FileDescriptorProto,
    comments: HashMap<&'a [i32], &'a str>,
}

/// The pages by their names, each ready to write.
pub(crate) fn pages(descriptors: &FileDescriptorSet) -> Vec<(String, String)> {
    let file = |name: &&str| {
        let path = format!("lockkeeper/v1/{name}.proto");
        let proto = descriptors.file.iter().find(|file| file.name() == path);
        File::new(proto.expect("a file of the API"))
    };
    let parts: Vec<(&str, &str, Vec<File<'_>>)> = PAGES
        .iter()
        .map(|(page, title, files)| (*page, *title, files.iter().map(file).collect()))
        .collect();
    let homes: HashMap<&str, &str> = parts
        .iter()
        .flat_map(|(page, _, files)| {
            files
                .iter()
                .flat_map(|it| it.names().map(|name| (name, *page)))
        })
        .collect();
    let written = parts.iter().map(|(page, title, files)| {
        let mut text = format!(
            "# {title}\n\nFrom the comments of `proto/lockkeeper/v1`, by `make proto`. Package \
             `lockkeeper.v1`.\n"
        );
        for file in files {
            file.write(&mut text, page, &homes);
        }
        (format!("{page}.md"), text)
    });
    written.collect()
}

// === impl File ===

impl<'a> File<'a> {
    fn new(proto: &'a FileDescriptorProto) -> Self {
        let info = proto.source_code_info.iter();
        let locations = info.flat_map(|info| &info.location);
        let comments = locations.map(|it| (it.path.as_slice(), it.leading_comments()));
        Self {
            proto,
            comments: comments.collect(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        let messages = self.proto.message_type.iter().map(DescriptorProto::name);
        messages.chain(self.proto.enum_type.iter().map(EnumDescriptorProto::name))
    }

    /// The comment at a path, as paragraphs.
    fn comment(&self, path: &[i32]) -> String {
        let text = self.comments.get(path).copied().unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        lines.join("\n").trim().to_owned()
    }

    fn write(&self, text: &mut String, page: &str, homes: &HashMap<&str, &str>) {
        for (at, service) in (0..).zip(&self.proto.service) {
            self.write_service(text, at, service, page, homes);
        }
        for (at, message) in (0..).zip(&self.proto.message_type) {
            self.write_message(text, at, message, page, homes);
        }
        for (at, kind) in (0..).zip(&self.proto.enum_type) {
            self.write_enum(text, at, kind);
        }
    }

    fn write_service(
        &self,
        text: &mut String,
        at: i32,
        service: &ServiceDescriptorProto,
        page: &str,
        homes: &HashMap<&str, &str>,
    ) {
        let about = self.comment(&[SERVICES, at]);
        let _ = write!(text, "\n## {}\n\n{about}\n", service.name());
        for (number, method) in (0..).zip(&service.method) {
            let stream = |streams| if streams { "stream of " } else { "" };
            let _ = write!(
                text,
                "\n### {}\n\nRequest: {}{}. Response: {}{}.\n\n{}\n",
                method.name(),
                stream(method.client_streaming()),
                link(method.input_type(), page, homes),
                stream(method.server_streaming()),
                link(method.output_type(), page, homes),
                self.comment(&[SERVICES, at, FIELDS, number]),
            );
        }
    }

    fn write_message(
        &self,
        text: &mut String,
        at: i32,
        message: &DescriptorProto,
        page: &str,
        homes: &HashMap<&str, &str>,
    ) {
        let about = self.comment(&[MESSAGES, at]);
        let _ = write!(text, "\n## {}\n\n{about}\n", message.name());
        if message.field.is_empty() {
            return;
        }
        text.push_str("\n| Field | Type | |\n|---|---|---|\n");
        for (number, field) in (0..).zip(&message.field) {
            let mut kind = kind(field, page, homes);
            if field.oneof_index.is_some() && !field.proto3_optional() {
                let of =
                    &message.oneof_decl[usize::try_from(field.oneof_index()).expect("an index")];
                let _ = write!(kind, ", one of `{}`", of.name());
            }
            let about = self.comment(&[MESSAGES, at, FIELDS, number]);
            let about = about.replace('\n', " ").replace('|', "\\|");
            let (name, number) = (field.name(), field.number());
            let _ = writeln!(text, "| `{name}` = {number} | {kind} | {about} |");
        }
    }

    fn write_enum(&self, text: &mut String, at: i32, kind: &EnumDescriptorProto) {
        let about = self.comment(&[ENUMS, at]);
        let _ = write!(
            text,
            "\n## {}\n\n{about}\n\n| Value | |\n|---|---|\n",
            kind.name()
        );
        for (number, value) in (0..).zip(&kind.value) {
            let about = self
                .comment(&[ENUMS, at, FIELDS, number])
                .replace('\n', " ");
            let _ = writeln!(
                text,
                "| `{}` = {} | {about} |",
                value.name(),
                value.number()
            );
        }
    }
}

/// The type of a field.
fn kind(field: &FieldDescriptorProto, page: &str, homes: &HashMap<&str, &str>) -> String {
    let kind = match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name(), page, homes),
        scalar => scalar
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_ascii_lowercase(),
    };
    match field.label() {
        Label::Repeated => format!("repeated {kind}"),
        Label::Optional | Label::Required if field.proto3_optional() => format!("optional {kind}"),
        Label::Optional | Label::Required => kind,
    }
}

/// A message or an enum, with a link to its description.
fn link(full_name: &str, page: &str, homes: &HashMap<&str, &str>) -> String {
    let Some(name) = full_name.strip_prefix(PACKAGE) else {
        return format!("`{}`", full_name.trim_start_matches('.'));
    };
    let anchor = name.to_ascii_lowercase();
    match homes.get(name) {
        Some(home) if *home == page => format!("[{name}](#{anchor})"),
        Some(home) => format!("[{name}]({home}.md#{anchor})"),
        None => name.to_owned(),
    }
}
