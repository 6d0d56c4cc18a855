//! Who may come in: the keys of `--allow`, those enrolled before, and whoever
//! shows an invite that nobody has used.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ctcp::{Authorize, Decision, Identity, PublicKey, Refusal};
use ctcp_proxy::allowlist::{AllowList, append_to_file};
use ctcp_proxy::client::{Client, Clients};
use ctcp_proxy::invite::{Invite, InviteBook, Token};
use ctcp_proxy::key::Key;
use ctcp_proxy::limits::Limits;
use ctcp_proxy::target::Target;
use tracing::{info, warn};

use crate::failure::Failure;
use crate::keys;
use crate::output::notice;

/// What a client without a name is called.
const UNNAMED: &str = "unnamed";

/// Where the lists are.
#[derive(Debug, Clone)]
pub(crate) struct GatekeeperConfig {
    /// What `--allow` gave: keys and files.
    pub(crate) arguments: Vec<String>,
    /// The file of enrolled clients.
    pub(crate) enrolled: Option<PathBuf>,
    /// The file of outstanding invites.
    pub(crate) invites: Option<PathBuf>,
    /// What a client may take of which the lists say nothing.
    pub(crate) limits: Limits,
}

/// Decides who may come in. Clones decide by the same lists.
#[derive(Debug, Clone)]
pub(crate) struct Gatekeeper {
    shared: Arc<Mutex<Lists>>,
    clients: Arc<Clients>,
}

#[derive(Debug)]
struct Lists {
    config: GatekeeperConfig,
    allow: AllowList,
    book: InviteBook,
}

impl Gatekeeper {
    /// Reads the lists.
    pub(crate) fn open(config: GatekeeperConfig) -> Result<Self, Failure> {
        let allow = read_allow(&config)?;
        let mut book = read_book(&config)?;
        book.forget_expired(now_seconds());
        Ok(Self {
            shared: Arc::new(Mutex::new(Lists {
                config,
                allow,
                book,
            })),
            clients: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the allow-lists again; if that fails they stay as they were.
    /// `changed` is what `--allow` gives now, and the limits of those of whom the
    /// lists say nothing, if these may have changed. New limits hold at once, for
    /// those who are connected, too.
    pub(crate) fn reload(&self, changed: Option<(Vec<String>, Limits)>) -> Result<(), Failure> {
        let mut lists = self.lock();
        let mut config = lists.config.clone();
        if let Some((arguments, limits)) = changed {
            (config.arguments, config.limits) = (arguments, limits);
        }
        lists.allow = read_allow(&config)?;
        lists.config = config;
        let lists = &*lists;
        self.clients.update(|key| lists.about(key));
        Ok(())
    }

    /// Whether nobody could ever come in.
    pub(crate) fn is_closed_to_all(&self) -> bool {
        let lists = self.lock();
        lists.allow.is_empty() && lists.book.is_empty()
    }

    /// The lists' sizes, in words.
    pub(crate) fn summary(&self) -> String {
        let lists = self.lock();
        let plural = |count, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let clients = plural(lists.allow.len(), "client allowed", "clients allowed");
        match lists.book.len() {
            0 => clients,
            count => format!(
                "{clients}, {}",
                plural(count, "invite open", "invites open")
            ),
        }
    }

    /// A client that has come in: its name, what it may take and has taken.
    pub(crate) fn client(&self, key: &PublicKey) -> Arc<Client> {
        let lists = self.lock();
        let unlisted = (UNNAMED, lists.config.limits);
        let (name, limits) = lists.about(key.as_bytes()).unwrap_or(unlisted);
        self.clients.record(key.as_bytes(), name, limits)
    }

    /// Those who have come in.
    pub(crate) fn clients(&self) -> Arc<Clients> {
        self.clients.clone()
    }

    /// Issues an invite and puts it down, so that it survives a restart.
    pub(crate) fn invite(
        &self,
        name: &str,
        server: Target,
        identity: &Identity,
    ) -> Result<Invite, Failure> {
        let bytes: [u8; 16] = keys::system_random()?.array();
        let token = Token::from_bytes(&bytes).expect("16 bytes are enough");
        let mut lists = self.lock();
        let refused = |error| Failure::usage(format!("--invite {name}: {error}"));
        lists
            .book
            .issue(&token, Some(name), now_seconds())
            .map_err(refused)?;
        lists.save_book().map_err(|error| {
            Failure::usage(format!("the invite cannot be written down: {error}"))
        })?;
        Ok(Invite {
            token,
            server_key: *identity.public().as_bytes(),
            server,
        })
    }
}

impl Lists {
    /// The name and the limits of a client on the list.
    fn about(&self, key: &Key) -> Option<(&str, Limits)> {
        let entry = self.allow.get(key)?;
        let name = entry.name.as_deref().unwrap_or(UNNAMED);
        Some((name, entry.limits.or(self.config.limits)))
    }

    fn save_book(&self) -> io::Result<()> {
        match &self.config.invites {
            Some(path) => keys::write_private(path, self.book.to_text().as_bytes()),
            None => Ok(()),
        }
    }

    /// Takes an invite. What is on the disk says so before the client learns it;
    /// if the disk refuses, so do we.
    fn enrol(&mut self, client: &PublicKey, token: &[u8], now: u64) -> Decision {
        let before = self.book.clone();
        let name = match self.book.redeem(token, now) {
            Ok(name) => name,
            Err(error) => {
                notice(format_args!(
                    "an invite was not taken from {client}: {error}"
                ));
                return Decision::Refuse(Refusal::BadInvite);
            }
        };
        let path = self
            .config
            .enrolled
            .as_ref()
            .expect("invites need a state folder");
        let saved = append_to_file(path, client.as_bytes(), name.as_deref())
            .and_then(|()| self.save_book());
        if let Err(error) = saved {
            warn!(%error, file = %path.display(), "a client could not be enrolled");
            self.book = before;
            return Decision::Refuse(Refusal::Busy);
        }
        self.allow.insert(*client.as_bytes(), name.as_deref());
        let name = name.as_deref().unwrap_or(UNNAMED);
        notice(format_args!(
            "enrolled {name} with key {client} in {}",
            path.display()
        ));
        Decision::Allow
    }
}

impl Authorize for Gatekeeper {
    fn authorize(&mut self, client: &PublicKey, invite: &[u8], wall_nanos: u64) -> Decision {
        let mut lists = self.lock();
        // A known client keeps its invite: it may have been sent again because
        // our answer was lost.
        if lists.allow.allows(client.as_bytes()) {
            return Decision::Allow;
        }
        if invite.is_empty() {
            info!(%client, "refused a client that is not on the list");
            return Decision::Refuse(Refusal::NotAllowed);
        }
        lists.enrol(client, invite, wall_nanos / 1_000_000_000)
    }
}

fn read_allow(config: &GatekeeperConfig) -> Result<AllowList, Failure> {
    let mut allow = AllowList::default();
    for argument in &config.arguments {
        allow
            .add_argument(argument)
            .map_err(|error| Failure::usage(format!("--allow {argument}: {error}")))?;
    }
    if let Some(path) = config.enrolled.as_ref().filter(|path| path.exists()) {
        allow.extend(AllowList::load(path).map_err(Failure::usage)?);
    }
    Ok(allow)
}

fn read_book(config: &GatekeeperConfig) -> Result<InviteBook, Failure> {
    let Some(path) = config.invites.as_ref().filter(|path| path.exists()) else {
        return Ok(InviteBook::default());
    };
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    InviteBook::from_text(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))
}

fn now_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |span| span.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const NANOS: u64 = 1_000_000_000;

    fn open(folder: &Path) -> Gatekeeper {
        Gatekeeper::open(GatekeeperConfig {
            arguments: Vec::new(),
            enrolled: Some(folder.join("allow")),
            invites: Some(folder.join("invites")),
            limits: "streams=9".parse().expect("good"),
        })
        .expect("readable")
    }

    fn client(fill: u8) -> PublicKey {
        PublicKey::from_bytes([fill; 32])
    }

    fn invite(gatekeeper: &Gatekeeper) -> Vec<u8> {
        let identity = keys::generate().expect("random");
        let address = "vpn.example:4500".parse().expect("an address");
        let invite = gatekeeper.invite("anna", address, &identity).expect("room");
        invite.token.as_bytes().to_vec()
    }

    #[test]
    fn an_invite_lets_one_client_in_and_no_second() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut gatekeeper = open(folder.path());
        assert!(gatekeeper.is_closed_to_all());
        let token = invite(&gatekeeper);
        let now = now_seconds() * NANOS;
        assert_eq!(
            gatekeeper.authorize(&client(1), b"", now),
            Decision::Refuse(Refusal::NotAllowed)
        );
        assert_eq!(
            gatekeeper.authorize(&client(1), &token, now),
            Decision::Allow
        );
        assert_eq!(
            gatekeeper.authorize(&client(2), &token, now),
            Decision::Refuse(Refusal::BadInvite)
        );
        // The answer was lost, and the same client asks again.
        assert_eq!(
            gatekeeper.authorize(&client(1), &token, now),
            Decision::Allow
        );
        assert_eq!(&*gatekeeper.client(&client(1)).name(), "anna");
    }

    #[test]
    fn invites_and_enrolled_clients_survive_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = invite(&open(folder.path()));
        let now = now_seconds() * NANOS;
        assert_eq!(
            open(folder.path()).authorize(&client(1), &token, now),
            Decision::Allow
        );
        let mut gatekeeper = open(folder.path());
        assert_eq!(gatekeeper.authorize(&client(1), b"", now), Decision::Allow);
        assert_eq!(
            gatekeeper.authorize(&client(2), &token, now),
            Decision::Refuse(Refusal::BadInvite)
        );
        assert_eq!(gatekeeper.summary(), "1 client allowed");
    }

    #[test]
    fn limits_come_from_the_list_then_from_the_default_and_change_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let gatekeeper = open(folder.path());
        let file = folder.path().join("allow");
        let write = |text: &str| fs::write(&file, text).expect("writable");
        write(&format!("{} bob rate=1mbit\n", client(3)));
        gatekeeper.reload(None).expect("well formed");
        let bob = gatekeeper.client(&client(3));
        assert_eq!(bob.limits().to_string(), "rate=1000000bit streams=9");
        write(&format!("{} robert streams=5\n", client(3)));
        gatekeeper.reload(None).expect("well formed");
        assert_eq!(bob.limits().to_string(), "streams=5");
        assert_eq!(&*bob.name(), "robert");
        let limits = "rate=2mbit streams=1".parse().expect("good");
        gatekeeper.reload(Some((Vec::new(), limits))).expect("fine");
        assert_eq!(bob.limits().to_string(), "rate=2000000bit streams=5");
        write("nonsense");
        gatekeeper
            .reload(Some((Vec::new(), Limits::default())))
            .expect_err("bad");
        assert_eq!(bob.limits().to_string(), "rate=2000000bit streams=5");
    }

    #[test]
    fn a_list_is_read_again_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut gatekeeper = open(folder.path());
        let file = folder.path().join("allow");
        fs::write(&file, format!("{} bob\n", client(3))).expect("writable");
        gatekeeper.reload(None).expect("well formed");
        assert_eq!(gatekeeper.authorize(&client(3), b"", 0), Decision::Allow);
        fs::write(&file, "nonsense\n").expect("writable");
        gatekeeper.reload(None).expect_err("malformed");
        assert_eq!(gatekeeper.authorize(&client(3), b"", 0), Decision::Allow);
    }
}
