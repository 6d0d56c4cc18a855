//! The folder that is received into.
//!
//! Every operation starts at its open descriptor and goes down name by name,
//! without following a symbolic link: whatever the sender names, and whatever is
//! swapped meanwhile, nothing outside is touched.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use crate::error::{StoreError, TransferError};
use crate::manifest::{Folder, shown};
use crate::name::Name;
use crate::wire::{Meta, Time};

/// A folder to receive into.
#[derive(Debug)]
pub struct Store {
    root: Arc<OwnedFd>,
    /// The folder used last: files of one folder come together.
    last: Option<(Folder, Arc<OwnedFd>)>,
}

/// What is at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Present {
    Nothing,
    File { size: u64, meta: Meta },
    Folder,
    Other,
}

const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What cannot be a name's: no symbolic link, and no waiting at a pipe.
const FILE_FLAGS: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

impl Store {
    /// Opens the folder, made if it is not there, and sees whether it can be
    /// written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let refused = |error: io::Error| StoreError {
            path: path.to_owned(),
            error,
        };
        std::fs::create_dir_all(path).map_err(refused)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(path, flags, Mode::empty()).map_err(|e| refused(e.into()))?;
        let probe = format!(".ctcp-{}-probe.part", std::process::id());
        let flags = OFlags::CREATE | OFlags::WRONLY | FILE_FLAGS;
        let made = fs::openat(&root, &*probe, flags, Mode::RUSR | Mode::WUSR);
        made.and_then(|_| fs::unlinkat(&root, &*probe, AtFlags::empty()))
            .map_err(|error| refused(error.into()))?;
        Ok(Self {
            root: Arc::new(root),
            last: None,
        })
    }

    /// The descriptor of a folder that was entered before.
    pub(crate) fn folder(&mut self, folder: &Folder) -> Result<Arc<OwnedFd>, TransferError> {
        if let Some((last, fd)) = &self.last
            && last == folder
        {
            return Ok(fd.clone());
        }
        let mut fd = self.root.clone();
        for (depth, name) in folder.iter().enumerate() {
            let opened = fs::openat(&*fd, name.as_os_str(), FOLDER_FLAGS, Mode::empty());
            let next = opened.map_err(|error| no_folder(&folder[..depth], name, error))?;
            fd = Arc::new(next);
        }
        self.last = Some((folder.clone(), fd.clone()));
        Ok(fd)
    }

    /// Makes a folder if it is not there. One that is there becomes writable for
    /// us until [`Store::leave`].
    pub(crate) fn enter(&mut self, folder: &Folder) -> Result<(), TransferError> {
        let (name, parents) = folder.split_last().expect("the root is never entered");
        let parent = self.folder(&parents.into())?;
        match fs::mkdirat(&*parent, name.as_os_str(), Mode::RWXU) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(TransferError::local(shown(parents, name), error.into())),
        }
        let opened = fs::openat(&*parent, name.as_os_str(), FOLDER_FLAGS, Mode::empty())
            .map_err(|error| no_folder(parents, name, error))?;
        let failed = |error: Errno| TransferError::local(shown(parents, name), error.into());
        let mode = Mode::from_raw_mode(fs::fstat(&opened).map_err(failed)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            fs::fchmod(&opened, mode | Mode::RWXU).map_err(failed)?;
        }
        Ok(())
    }

    /// Gives a folder its permissions and time: all is in it.
    pub(crate) fn leave(&mut self, folder: &Folder, meta: &Meta) -> Result<(), TransferError> {
        let fd = self.folder(folder)?;
        // What stays open would keep the folder of a removed disk busy.
        self.last = None;
        let (name, parents) = folder.split_last().expect("the root is never left");
        dress(&*fd, meta).map_err(|error| TransferError::local(shown(parents, name), error))
    }

    /// What is there under a name.
    pub(crate) fn look(&mut self, folder: &Folder, name: &Name) -> Result<Present, TransferError> {
        let fd = self.folder(folder)?;
        match fs::statat(&*fd, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(present(&stat)),
            Err(Errno::NOENT) => Ok(Present::Nothing),
            Err(error) => Err(TransferError::local(shown(folder, name), error.into())),
        }
    }

    /// Opens a whole file to read it.
    pub(crate) fn open_whole(&mut self, folder: &Folder, name: &Name) -> io::Result<File> {
        let fd = self.folder(folder).map_err(io::Error::other)?;
        let flags = OFlags::RDONLY | FILE_FLAGS;
        let file = fs::openat(&*fd, name.as_os_str(), flags, Mode::empty())?;
        only_file(file.into())
    }

    /// Opens what there is of an unfinished file, made if there is nothing.
    pub(crate) fn open_part(
        &mut self,
        folder: &Folder,
        name: &Name,
        is_made: bool,
    ) -> io::Result<File> {
        let fd = self.folder(folder).map_err(io::Error::other)?;
        let mut flags = OFlags::RDWR | FILE_FLAGS;
        if is_made {
            flags |= OFlags::CREATE;
        }
        let file = fs::openat(&*fd, name.part(), flags, Mode::RUSR | Mode::WUSR)?;
        only_file(file.into())
    }

    /// Gives an unfinished file its permissions, time and name: it is whole.
    pub(crate) fn install(
        &mut self,
        folder: &Folder,
        name: &Name,
        file: &File,
        meta: &Meta,
    ) -> io::Result<()> {
        let fd = self.folder(folder).map_err(io::Error::other)?;
        dress(file, meta)?;
        fs::renameat(&*fd, name.part(), &*fd, name.as_os_str())?;
        Ok(())
    }

    /// Gives a whole file permissions and time.
    pub(crate) fn dress(&mut self, folder: &Folder, name: &Name, meta: &Meta) -> io::Result<()> {
        dress(&self.open_whole(folder, name)?, meta)
    }

    /// Throws an unfinished file away.
    pub(crate) fn discard(&mut self, folder: &Folder, name: &Name) {
        if let Ok(fd) = self.folder(folder) {
            // It may not be there.
            let _ = fs::unlinkat(&*fd, name.part(), AtFlags::empty());
        }
    }

    /// Makes a symbolic link; replaces a file or link of that name.
    pub(crate) fn link(
        &mut self,
        folder: &Folder,
        name: &Name,
        target: &[u8],
        mtime: &Time,
    ) -> Result<(), TransferError> {
        let fd = self.folder(folder)?;
        let failed = |error: Errno| TransferError::local(shown(folder, name), error.into());
        let present = fs::readlinkat(&*fd, name.as_os_str(), Vec::new());
        if present.is_ok_and(|present| present.as_bytes() == target) {
            return Ok(());
        }
        let part = name.part();
        let _ = fs::unlinkat(&*fd, &*part, AtFlags::empty());
        fs::symlinkat(target, &*fd, &*part).map_err(failed)?;
        // The time of a link is a nicety that some file systems lack.
        let _ = fs::utimensat(&*fd, &*part, &times(mtime), AtFlags::SYMLINK_NOFOLLOW);
        fs::renameat(&*fd, &*part, &*fd, name.as_os_str()).map_err(|error| {
            let _ = fs::unlinkat(&*fd, &*part, AtFlags::empty());
            failed(error)
        })
    }

    /// Bytes that the file system of a folder has left for us.
    pub(crate) fn free_bytes(&mut self, folder: &Folder) -> Option<u64> {
        let fd = self.folder(folder).ok()?;
        let stat = fs::fstatvfs(&*fd).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Waits until everything is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        fs::syncfs(&*self.root)?;
        Ok(())
    }
}

fn present(stat: &Stat) -> Present {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Present::File {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            meta: Meta {
                mode: (stat.st_mode & 0o777) as u16,
                mtime: Time {
                    #[allow(clippy::unnecessary_cast, reason = "its width differs by target")]
                    seconds: stat.st_mtime as i64,
                    nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
                },
            },
        },
        FileType::Directory => Present::Folder,
        _ => Present::Other,
    }
}

/// A device or a pipe under a file's name is not written to.
fn only_file(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no ordinary file")),
    }
}

fn dress(fd: impl std::os::fd::AsFd, meta: &Meta) -> io::Result<()> {
    fs::fchmod(&fd, Mode::from_raw_mode(u32::from(meta.mode)))?;
    fs::futimens(&fd, &times(&meta.mtime))?;
    Ok(())
}

fn times(mtime: &Time) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds,
            tv_nsec: mtime.nanos.into(),
        },
    }
}

/// What stands where a folder should be.
fn no_folder(parents: &[Name], name: &Name, error: Errno) -> TransferError {
    let path = shown(parents, name);
    match error {
        Errno::LOOP | Errno::NOTDIR => TransferError::InTheWay {
            path,
            what: "is a symbolic link or a file here and a folder there: \
                   what is under it could come to lie elsewhere; move it away",
        },
        error => TransferError::local(path, error.into()),
    }
}
