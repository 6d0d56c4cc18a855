//! Names to addresses, at the far side.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::lookup_host;
use tokio::sync::Semaphore;

use crate::target::HostName;

/// Addresses of one answer that are looked at; a hostile zone can hold thousands.
pub const ADDRESSES_MAX: usize = 32;

/// Look-ups under way at once with the system's resolver. Each occupies a thread
/// until the resolver gives up, so a silent name server could otherwise take all.
const LOOKUPS_MAX: usize = 64;

/// Resolves host names.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of `name`, best first. Only the first [`ADDRESSES_MAX`] are
    /// used. The caller limits the time; a dropped call is fine.
    ///
    /// # Errors
    /// Any error, and an empty answer, mean that the name does not resolve.
    fn resolve(&self, name: &HostName) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The resolver of the operating system, in the order that it prefers
/// ([RFC6724]), with its hosts file and search list.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    permits: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }
}

impl Resolve for SystemResolver {
    async fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let name = name.as_str().to_owned();
        // A task of its own keeps the permit for as long as the thread is busy,
        // even if nobody waits for the answer any more.
        let lookup = tokio::spawn(async move {
            let answer = lookup_host((name.as_str(), 0)).await;
            drop(permit);
            answer.map(|found| found.map(|a| a.ip()).take(ADDRESSES_MAX).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Host;

    #[tokio::test]
    async fn the_system_knows_itself() {
        let Ok(Host::Name(localhost)) = Host::from_name(b"localhost") else {
            panic!("a name");
        };
        let found = SystemResolver::default().resolve(&localhost).await;
        let found = found.expect("localhost resolves everywhere");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
