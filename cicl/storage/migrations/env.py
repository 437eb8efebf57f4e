"""What Alembic runs for every migration: on the connection, and in the transaction, that the store opened."""

from alembic import context

from cicl.storage.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # Alembic doubts it of SQLite, where it holds once BEGIN is sent by hand
)
with context.begin_transaction():
    context.run_migrations()
