//! A Unix-domain socket, for clients on this machine. Its file mode determines who may connect.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixSocket as Unbound, UnixStream};

use super::BACKLOG;

/// A listening socket and its file, which is removed with it.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of our file.
    file: (u64, u64),
}

// === impl UnixSocket ===

impl UnixSocket {
    /// Listens. The file of a dead process is replaced. A socket in use, or a file that is no
    /// socket, is refused.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        refuse_used(path)?;
        // Created under another name, so that it appears with its mode and already listening. It
        // listens only when it has its mode.
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(draft);
        let _ = fs::remove_file(&draft);
        let socket = Unbound::new_stream()?;
        socket.bind(&draft)?;
        let place = || {
            fs::set_permissions(&draft, fs::Permissions::from_mode(mode))?;
            let listener = socket.listen(BACKLOG)?;
            fs::rename(&draft, path)?;
            let (path, file) = (path.to_owned(), identify(path)?);
            Ok(Self {
                listener,
                path,
                file,
            })
        };
        place().inspect_err(|_| {
            let _ = fs::remove_file(&draft);
        })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Another process may have replaced the file meanwhile.
        if identify(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn refuse_used(path: &Path) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(file) if !file.file_type().is_socket() => refuse("the file there is not a socket"),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => refuse("another process listens there"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(error),
        },
    }
}

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_a_dead_process_left_behind_is_replaced() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("s.sock");
        let socket = UnixSocket::bind(&path, 0o660).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let refused = UnixSocket::bind(&path, 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists(), "it goes away with the listener");

        // The standard library's listener leaves its file behind, as a killed process does.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = UnixSocket::bind(&path, 0o600).unwrap();
        // Another process's file is not ours to remove.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let refused = UnixSocket::bind(&path, 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
