CREATE TABLE IF NOT EXISTS sessions (secret text PRIMARY KEY, name text NOT NULL);
CREATE TABLE IF NOT EXISTS notes (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    author text NOT NULL,
    text text NOT NULL
);
