"""How Alembic reaches the database: through the connection that ``collector.database`` hands over."""

from __future__ import annotations

from alembic import context

from keyveil.collector.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
