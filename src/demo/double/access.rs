//! Who is calling and what they may touch: the App's signed statement, installation tokens with
//! their end, their repositories and permissions, and GitHub's refusals in GitHub's words.
//! Called by `routes`, `refs` and `git_http`. Never believes a token that it did not mint.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use aws_lc_rs::encoding::AsDer as _;
use base64::Engine as _;
use chrono::{DateTime, TimeDelta, Utc};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::secret::{Secret, random_bytes};

use super::answer::{Answer, Refused};
use super::state::State;

/// GitHub ends installation tokens after an hour.
const TOKEN_LIFE: TimeDelta = TimeDelta::hours(1);

/// GitHub refuses statements that claim to live longer.
const LONGEST_STATEMENT: TimeDelta = TimeDelta::minutes(10);

/// Verifies the App's statements.
pub(super) struct PublicKey(DecodingKey);

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PublicKey")
    }
}

/// A fresh key pair, as GitHub makes one for an App.
pub(super) struct AppKeyPair {
    pub(super) private_pem: Secret,
    pub(super) public: PublicKey,
}

impl AppKeyPair {
    pub(super) fn generate() -> anyhow::Result<Self> {
        let pair = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048)
            .map_err(|_| anyhow::anyhow!("generate an RSA key for the App"))?;
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().ok().context("encode the App's private key")?;
        let public = aws_lc_rs::signature::KeyPair::public_key(&pair);
        Ok(Self {
            private_pem: Secret::new(pem("PRIVATE KEY", der.as_ref())),
            public: PublicKey(DecodingKey::from_rsa_der(public.as_ref())),
        })
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {kind}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = next;
    }
    pem + "-----END " + kind + "-----\n"
}

/// The App's installation on one account.
pub(super) struct Installation {
    pub(super) id: u64,
    pub(super) account: u64,
    pub(super) suspended: bool,
    pub(super) repositories: BTreeSet<u64>,
    pub(super) permissions: BTreeMap<String, Level>,
}

impl Installation {
    pub(super) fn new(id: u64) -> Self {
        let permissions = [
            ("metadata", Level::Read),
            ("contents", Level::Write),
            ("issues", Level::Write),
            ("pull_requests", Level::Write),
            ("checks", Level::Write),
            ("statuses", Level::Read),
            ("repository_advisories", Level::Write),
        ];
        Self {
            id,
            account: 0,
            suspended: false,
            repositories: BTreeSet::new(),
            permissions: permissions.map(|(name, level)| (name.to_owned(), level)).into(),
        }
    }
}

/// How far a permission goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Read,
    Write,
}

impl Level {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "read" => Some(Level::Read),
            "write" => Some(Level::Write),
            _ => None,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Level::Read => "read",
            Level::Write => "write",
        }
    }
}

/// A minted installation token.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) ends_at: DateTime<Utc>,
    pub(super) permissions: BTreeMap<String, Level>,
    /// `None` is all of the installation.
    pub(super) repositories: Option<BTreeSet<u64>>,
}

impl Token {
    pub(super) fn allows(&self, permission: &str, level: Level) -> bool {
        self.permissions
            .get(permission)
            .is_some_and(|granted| *granted >= level)
    }
}

/// Who sent a request.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    Anonymous,
    App,
    Installation(Token),
}

/// The first digits of a token's hash: tells tokens apart without keeping them.
pub(super) fn fingerprint(token: &str) -> String {
    hex::encode(&sha2::Sha256::digest(token.as_bytes())[..6])
}

impl State {
    /// Reads an `Authorization` header of the API.
    pub(super) fn identify(&self, authorization: Option<&str>) -> Result<Caller, Refused> {
        let Some(authorization) = authorization else {
            return Ok(Caller::Anonymous);
        };
        let token = authorization
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token"))
            .map(|(_, token)| token.trim())
            .ok_or_else(|| Refused::new(401, "Bad credentials"))?;
        if token.matches('.').count() == 2 {
            return self.check_statement(token).map(|()| Caller::App);
        }
        if self.installation.suspended && self.tokens.contains_key(token) {
            return Err(Refused::new(403, "This installation has been suspended"));
        }
        match self.live_token(token) {
            Some(token) => Ok(Caller::Installation(token.clone())),
            None => Err(Refused::new(401, "Bad credentials")),
        }
    }

    pub(super) fn live_token(&self, token: &str) -> Option<&Token> {
        let token = self.tokens.get(token)?;
        (token.ends_at > self.now() && !self.installation.suspended).then_some(token)
    }

    fn check_statement(&self, statement: &str) -> Result<(), Refused> {
        let mut validation = Validation::new(Algorithm::RS256);
        validation.required_spec_claims.clear();
        validation.validate_exp = false; // by our clock, below
        validation.validate_aud = false;
        let claims = jsonwebtoken::decode::<Value>(statement, &self.app.key.0, &validation)
            .map_err(|_| Refused::new(401, "A JSON web token could not be decoded"))?
            .claims;
        let issuer = claims["iss"].as_u64().or_else(|| claims["iss"].as_str()?.parse().ok());
        if issuer != Some(self.app.id) {
            return Err(Refused::new(404, "Integration not found"));
        }
        let now = self.now();
        let time = |name: &str| claims[name].as_i64().and_then(|at| DateTime::from_timestamp(at, 0));
        if time("iat").is_none_or(|iat| iat > now) {
            let text =
                "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued";
            return Err(Refused::new(401, text));
        }
        match time("exp") {
            Some(exp) if exp > now + LONGEST_STATEMENT => Err(Refused::new(
                401,
                "'Expiration time' claim ('exp') is too far in the future",
            )),
            Some(exp) if exp > now => Ok(()),
            _ => {
                let text = "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires";
                Err(Refused::new(401, text))
            }
        }
    }

    /// `POST /app/installations/{id}/access_tokens`.
    pub(super) fn mint(&mut self, installation: &str, body: &Value) -> Result<Answer, Refused> {
        if installation.parse() != Ok(self.installation.id) {
            return Err(Refused::new(404, "Not Found"));
        }
        if self.installation.suspended {
            return Err(Refused::new(403, "This installation has been suspended"));
        }
        let permissions = self.wanted_permissions(&body["permissions"])?;
        let repositories = match &body["repositories"] {
            Value::Null => self.wanted_repositories(&body["repository_ids"])?,
            names => self.wanted_repositories(&self.ids_of(names))?,
        };
        let bytes = random_bytes::<36>();
        const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let random: String = bytes.iter().map(|byte| LETTERS[*byte as usize % 62] as char).collect();
        let value = format!("ghs_{random}");
        let ends_at = self.now() + TOKEN_LIFE;
        let mut answer = json!({
            "token": value,
            "expires_at": ends_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            "permissions": permissions.iter().map(|(name, level)| (name.clone(), level.word())).collect::<BTreeMap<_, _>>(),
            "repository_selection": if repositories.is_some() { "selected" } else { "all" },
        });
        if let Some(ids) = &repositories {
            answer["repositories"] = ids.iter().map(|id| self.shape_repository(*id)).collect();
        }
        let token = Token {
            ends_at,
            permissions,
            repositories,
        };
        self.tokens.insert(value, token);
        Ok(Answer::new(201, answer))
    }

    fn wanted_permissions(&self, wanted: &Value) -> Result<BTreeMap<String, Level>, Refused> {
        let granted = &self.installation.permissions;
        let Some(wanted) = wanted.as_object() else {
            return Ok(granted.clone());
        };
        let mut permissions = BTreeMap::from([("metadata".to_owned(), Level::Read)]);
        for (name, level) in wanted {
            let level = level.as_str().and_then(Level::parse);
            let level = level.filter(|level| granted.get(name).is_some_and(|granted| granted >= level));
            let refusal = "The permissions requested are not granted to this installation.";
            permissions.insert(name.clone(), level.ok_or_else(|| Refused::new(422, refusal))?);
        }
        Ok(permissions)
    }

    /// The ids of repositories by name; of one that does not exist, null.
    fn ids_of(&self, names: &Value) -> Value {
        let id_of = |name: &Value| {
            let name = name.as_str()?;
            let found = self.repos.values().find(|repo| repo.name.eq_ignore_ascii_case(name));
            found.map(|repo| repo.id)
        };
        names
            .as_array()
            .map(|names| names.iter().map(id_of).collect())
            .unwrap_or_default()
    }

    fn wanted_repositories(&self, wanted: &Value) -> Result<Option<BTreeSet<u64>>, Refused> {
        let Some(wanted) = wanted.as_array() else {
            return Ok(None);
        };
        let known = |id: &Value| id.as_u64().filter(|id| self.installation.repositories.contains(id));
        let ids: Option<BTreeSet<u64>> = wanted.iter().map(known).collect();
        let refusal =
            "There is at least one repository that does not exist or is not accessible to the parent installation.";
        ids.map(Some).ok_or_else(|| Refused::new(422, refusal))
    }

    /// Whether the caller may do something that needs one of `permissions` at `level`, refused as
    /// GitHub does it: what may not be seen does not exist.
    pub(super) fn authorize(
        &self,
        caller: &Caller,
        repo: u64,
        permissions: &[&str],
        level: Level,
    ) -> Result<(), Refused> {
        let not_found = || Refused::new(404, "Not Found");
        let repo = self.repos.get(&repo).ok_or_else(not_found)?;
        let readable = !repo.private;
        let token = match caller {
            Caller::Installation(token) => token,
            Caller::Anonymous | Caller::App if readable && level == Level::Read => return Ok(()),
            Caller::Anonymous if readable => return Err(Refused::new(401, "Requires authentication")),
            Caller::App if readable => {
                return Err(Refused::new(403, "Resource not accessible by integration"));
            }
            Caller::Anonymous | Caller::App => return Err(not_found()),
        };
        let covered = self.installation.repositories.contains(&repo.id)
            && token.repositories.as_ref().is_none_or(|ids| ids.contains(&repo.id));
        let allowed = permissions.iter().any(|name| token.allows(name, level));
        match (covered, allowed) {
            (true, true) => Ok(()),
            (false, _) if readable && level == Level::Read => Ok(()),
            (false, _) if !readable => Err(not_found()),
            _ => {
                let need: Vec<String> = permissions
                    .iter()
                    .map(|name| format!("{name}={}", level.word()))
                    .collect();
                let refusal = Refused::new(403, "Resource not accessible by integration");
                Err(refusal.header("x-accepted-github-permissions", &need.join("; ")))
            }
        }
    }
}
