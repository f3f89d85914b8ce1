//! Table `repositories`: where we are installed, as GitHub last told us. Called by `intake`.
//! Never decides who may do something: names and installations move, ids do not.

use super::row::{parse, row};
use super::{RepoRow, StoreError, Tx};
use crate::ids::{InstallationId, RepoId, RepoName};

row! {
    Stored {
        id: i64,
        name: String,
        installation_id: i64,
        active: bool,
    }
}

row! {
    StoredWithLabel {
        id: i64,
        name: String,
        installation_id: i64,
        active: bool,
        label: Option<String>,
    }
}

impl Stored {
    fn into_row(self) -> Result<RepoRow, StoreError> {
        Ok(RepoRow {
            id: RepoId::from_i64(self.id),
            name: parse("repositories.name", &self.name)?,
            installation: InstallationId::from_i64(self.installation_id),
            active: self.active,
        })
    }
}

impl Tx {
    /// One repository.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn repo(&mut self, id: RepoId) -> Result<Option<RepoRow>, StoreError> {
        let stored: Option<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, name, installation_id, active
                 FROM repositories
                 WHERE id = $1"
            )
            .bind(id.as_i64()),
            fetch_optional
        )?;
        stored.map(Stored::into_row).transpose()
    }

    /// One repository and the label that its own file names.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn repo_with_label(&mut self, id: RepoId) -> Result<Option<(RepoRow, Option<String>)>, StoreError> {
        let stored: Option<StoredWithLabel> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, name, installation_id, active, label
                 FROM repositories
                 LEFT JOIN repository_labels ON repository_labels.repo_id = repositories.id
                 WHERE id = $1"
            )
            .bind(id.as_i64()),
            fetch_optional
        )?;
        let Some(stored) = stored else { return Ok(None) };
        let row = Stored {
            id: stored.id,
            name: stored.name,
            installation_id: stored.installation_id,
            active: stored.active,
        };
        Ok(Some((row.into_row()?, stored.label)))
    }

    /// The active repository of a name, written in any case. Names move: whoever uses it has the number
    /// compared before anything is done.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn repo_by_name(&mut self, name: &RepoName) -> Result<Option<RepoRow>, StoreError> {
        let stored: Vec<Stored> = on_db!(
            self,
            sqlx::query_as(
                "SELECT id, name, installation_id, active
                 FROM repositories
                 WHERE active AND lower(name) = lower($1)
                 ORDER BY id DESC
                 LIMIT 1"
            )
            .bind(name.as_str()),
            fetch_all
        )?;
        stored.into_iter().next().map(Stored::into_row).transpose()
    }

    /// Stores what was last heard of a repository.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn upsert_repo(&mut self, repo: &RepoRow) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "INSERT INTO repositories (id, name, installation_id, active)
                 VALUES ($1, $2, $3, $4)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name,
                     installation_id = excluded.installation_id,
                     active = excluded.active"
            )
            .bind(repo.id.as_i64())
            .bind(repo.name.as_str())
            .bind(repo.installation.as_i64())
            .bind(repo.active),
            execute
        )?;
        Ok(())
    }

    /// The label that starts work in a repository besides the server's.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn repo_label(&mut self, id: RepoId) -> Result<Option<String>, StoreError> {
        let label = on_db!(
            self,
            sqlx::query_scalar(
                "SELECT label
                 FROM repository_labels
                 WHERE repo_id = $1"
            )
            .bind(id.as_i64()),
            fetch_optional
        )?;
        Ok(label)
    }

    /// Stores what a repository's own file says of its label; nothing: it has none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn set_repo_label(&mut self, id: RepoId, label: Option<&str>) -> Result<(), StoreError> {
        match label {
            Some(label) => on_db!(
                self,
                sqlx::query(
                    "INSERT INTO repository_labels (repo_id, label)
                     VALUES ($1, $2)
                     ON CONFLICT (repo_id) DO UPDATE
                     SET label = excluded.label"
                )
                .bind(id.as_i64())
                .bind(label),
                execute
            )?,
            None => on_db!(
                self,
                sqlx::query(
                    "DELETE FROM repository_labels
                     WHERE repo_id = $1"
                )
                .bind(id.as_i64()),
                execute
            )?,
        };
        Ok(())
    }

    /// All repositories of an installation become inactive (uninstalled, suspended) or active.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn set_installation_active(
        &mut self,
        installation: InstallationId,
        active: bool,
    ) -> Result<(), StoreError> {
        on_db!(
            self,
            sqlx::query(
                "UPDATE repositories
                 SET active = $2
                 WHERE installation_id = $1"
            )
            .bind(installation.as_i64())
            .bind(active),
            execute
        )?;
        Ok(())
    }
}
