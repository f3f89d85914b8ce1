//! Package registries that commands read through the proxy: which addresses they are, in which form
//! a sandbox asks for them, and what about their answers has to change for that. Called by the
//! proxy. Never a list of registries of our own: they are configured or found in settings.

use std::sync::{Mutex, PoisonError};

use super::authority::Authority;

mod detect;
mod fetch;
mod grammar;
mod rewrite;
mod settings;

pub use detect::detect_registries;
pub(super) use fetch::pass;
pub(super) use settings::add_to;

use grammar::Role;

/// Addresses that one registry may have for its files.
const MAX_ADDRESSES: usize = 8;

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Cargo,
    Npm,
    Pip,
    Go,
    Apt,
}

/// The words of the configuration.
const KINDS: [(&str, Kind); 5] = [
    ("cargo", Kind::Cargo),
    ("npm", Kind::Npm),
    ("pip", Kind::Pip),
    ("go", Kind::Go),
    ("apt", Kind::Apt),
];

/// A folder of a server: scheme, host, port and a path that ends in `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    is_https: bool,
    authority: Authority,
    path: String,
}

impl Base {
    /// Reads `https://HOST[:PORT]/PATH/`, also with `sparse+` before it, as cargo writes it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let plain = text.strip_prefix("sparse+").unwrap_or(text);
        let (is_https, rest) = match (plain.strip_prefix("https://"), plain.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(format!("{text:?} does not begin with https:// or http://")),
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let authority = Authority::with_usual_port(host, if is_https { 443 } else { 80 });
        let authority = authority.map_err(|why| format!("{text:?}: {why}"))?;
        let path = path.trim_end_matches('/');
        if !path.is_empty() && !path.split('/').all(grammar::is_plain) {
            return Err(format!("{text:?}: the path holds something odd"));
        }
        let path = if path.is_empty() {
            "/".to_owned()
        } else {
            format!("/{path}/")
        };
        Ok(Self {
            is_https,
            authority,
            path,
        })
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(super) fn is_https(&self) -> bool {
        self.is_https
    }

    /// The port under which a sandbox asks: the usual one stays the usual one.
    fn inner_port(&self) -> u16 {
        match (self.is_https, self.authority.port()) {
            (true, 443) => 80,
            (_, port) => port,
        }
    }

    /// Whether a sandbox means this server.
    fn is_at(&self, asked: &Authority) -> bool {
        asked.host() == self.authority.host() && asked.port() == self.inner_port()
    }

    fn origin(&self, scheme: &str, usual: u16, port: u16) -> String {
        let host = self.authority.host();
        match port == usual {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{host}:{port}"),
        }
    }

    /// Scheme and usual port of the server.
    fn scheme(&self) -> (&'static str, u16) {
        if self.is_https { ("https", 443) } else { ("http", 80) }
    }

    /// The address as the server has it, without the last slash.
    fn outer(&self) -> String {
        let (scheme, usual) = self.scheme();
        self.origin(scheme, usual, self.authority.port()) + self.path.trim_end_matches('/')
    }

    /// The same as some servers write it: with the usual port.
    fn outer_with_port(&self) -> String {
        let (scheme, _) = self.scheme();
        let (host, port) = (self.authority.host(), self.authority.port());
        format!("{scheme}://{host}:{port}{}", self.path.trim_end_matches('/'))
    }

    /// The address by which a sandbox asks, without the last slash.
    pub(super) fn inner(&self) -> String {
        self.origin("http", 80, self.inner_port()) + self.path.trim_end_matches('/')
    }
}

/// One registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registry {
    kind: Kind,
    index: Base,
    /// Where its files lie, if elsewhere.
    files: Vec<Base>,
}

impl Registry {
    /// Reads `KIND ADDRESS [ADDRESS…]`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let Some((_, kind)) = KINDS.iter().find(|(word, _)| *word == kind) else {
            let kinds = KINDS.map(|(word, _)| word).join(", ");
            return Err(format!("{text:?} does not begin with one of {kinds}"));
        };
        let index = words.next().ok_or_else(|| format!("{text:?} has no address"))?;
        let files: Vec<Base> = words.map(Base::parse).collect::<Result<_, _>>()?;
        if files.len() > MAX_ADDRESSES {
            return Err(format!("{text:?} has more than {MAX_ADDRESSES} addresses"));
        }
        Ok(Self {
            kind: *kind,
            index: Base::parse(index)?,
            files,
        })
    }

    fn bases(&self) -> impl Iterator<Item = &Base> {
        std::iter::once(&self.index).chain(&self.files)
    }
}

/// What a sandbox asks a registry for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) base: Base,
    pub(super) role: Role,
    /// Which registry of the list.
    at: usize,
}

/// The registries of one run.
#[derive(Debug, Default)]
pub(super) struct Registries {
    all: Mutex<Vec<Registry>>,
}

impl Registries {
    pub(super) fn new(all: Vec<Registry>) -> Self {
        Self { all: Mutex::new(all) }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Registry>) -> T) -> T {
        look(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a tunnel is asked for to a host that is read through the proxy instead.
    pub(super) fn has_host(&self, host: &str) -> bool {
        self.with(|all| {
            let mut bases = all.iter().flat_map(Registry::bases);
            bases.any(|base| base.authority.host() == host)
        })
    }

    /// Whether a request is one for a registry, and if so, whether it is one for packages.
    pub(super) fn wanted(&self, asked: &Authority, path: &str) -> Option<Result<Wanted, String>> {
        self.with(|all| {
            let mut is_registry = false;
            for (at, registry) in all.iter().enumerate() {
                for (place, base) in registry.bases().enumerate() {
                    if !base.is_at(asked) {
                        continue;
                    }
                    is_registry = true;
                    let role = path.strip_prefix(&base.path);
                    let role = role.and_then(|rest| grammar::role(registry.kind, place > 0, rest));
                    if let Some(role) = role {
                        let base = base.clone();
                        return Some(Ok(Wanted { base, role, at }));
                    }
                }
            }
            let why = format!(
                "{} is a registry, and this is no address of packages there",
                asked.host()
            );
            is_registry.then_some(Err(why))
        })
    }

    /// Remembers where a registry itself says that its files lie.
    fn learn(&self, wanted: &Wanted, base: Base) {
        self.with(|all| {
            let Some(registry) = all.get_mut(wanted.at) else { return };
            if !registry.files.contains(&base) && registry.files.len() < MAX_ADDRESSES {
                registry.files.push(base);
            }
        });
    }

    /// Pairs of addresses: as servers write them, and as a sandbox asks for them.
    fn translations(&self, wanted: &Wanted) -> Vec<(String, String)> {
        self.with(|all| {
            let bases = all.get(wanted.at).into_iter().flat_map(Registry::bases);
            let pairs =
                bases.flat_map(|base| [base.outer(), base.outer_with_port()].map(|outer| (outer, base.inner())));
            let mut pairs: Vec<_> = pairs.filter(|(outer, inner)| outer != inner).collect();
            pairs.dedup();
            pairs
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, outer: &str, inner: &str) {
        let base = Base::parse(text).unwrap();
        assert_eq!((base.outer().as_str(), base.inner().as_str()), (outer, inner), "{text}");
    }

    #[test]
    fn a_sandbox_asks_by_http() {
        check(
            "https://index.example/",
            "https://index.example",
            "http://index.example",
        );
        check(
            "sparse+https://index.example",
            "https://index.example",
            "http://index.example",
        );
        check(
            "https://pypi.example/simple/",
            "https://pypi.example/simple",
            "http://pypi.example/simple",
        );
        check(
            "https://nexus.example:8443/npm",
            "https://nexus.example:8443/npm",
            "http://nexus.example:8443/npm",
        );
        check(
            "http://deb.example/debian",
            "http://deb.example/debian",
            "http://deb.example/debian",
        );
    }

    #[test]
    fn what_is_no_registry_is_refused() {
        for text in [
            "",
            "cargo",
            "maven https://a.example/",
            "npm ftp://a.example/",
            "npm https://user:pw@a.example/",
            "npm https://a.example/../b",
            "npm https://a.example/?x",
            "npm *.example",
            "pip https://a.example/ b",
        ] {
            assert!(Registry::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn n10_a_registry_is_asked_for_packages_alone() {
        let registries = Registries::new(vec![
            Registry::parse("npm https://npm.example/").unwrap(),
            Registry::parse("pip https://pypi.example/simple/ https://files.example/packages/").unwrap(),
        ]);
        let wanted = |host: &str, path: &str| {
            let asked = Authority::with_usual_port(host, 80).unwrap();
            registries
                .wanted(&asked, path)
                .map(|wanted| wanted.map(|wanted| wanted.role))
        };
        assert_eq!(wanted("npm.example", "/left-pad"), Some(Ok(Role::Index)));
        assert_eq!(wanted("pypi.example", "/simple/requests/"), Some(Ok(Role::Index)));
        assert_eq!(wanted("files.example", "/packages/a/b/c.whl"), Some(Ok(Role::File)));
        assert!(matches!(wanted("pypi.example", "/pypi/upload"), Some(Err(_))));
        assert!(matches!(wanted("npm.example", "/-/npm/v1/tokens"), Some(Err(_))));
        assert_eq!(wanted("other.example", "/left-pad"), None);
        assert_eq!(wanted("npm.example:8080", "/left-pad"), None, "another server");
        assert!(registries.has_host("files.example") && !registries.has_host("example"));
    }

    #[test]
    fn files_may_lie_where_the_registry_says() {
        let registries = Registries::new(vec![Registry::parse("cargo https://index.example/").unwrap()]);
        let index = Authority::with_usual_port("index.example", 80).unwrap();
        let files = Authority::with_usual_port("static.example", 80).unwrap();
        let wanted = registries.wanted(&index, "/config.json").unwrap().unwrap();
        let path = "/crates/serde/1.0.0/download";
        assert_eq!(registries.wanted(&files, path), None);
        registries.learn(&wanted, Base::parse("https://static.example/crates").unwrap());
        assert_eq!(registries.wanted(&files, path).unwrap().unwrap().role, Role::File);
        let pairs = registries.translations(&wanted);
        for outer in ["https://static.example/crates", "https://static.example:443/crates"] {
            let pair = (outer.to_owned(), "http://static.example/crates".to_owned());
            assert!(pairs.contains(&pair), "{outer}: {pairs:?}");
        }
    }
}
