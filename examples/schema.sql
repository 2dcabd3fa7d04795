-- The tables of the examples that write to PostgreSQL: psql "$DATABASE_URL" -f schema.sql
CREATE TABLE charges (order_id text PRIMARY KEY);

CREATE TABLE reports (id int PRIMARY KEY, body text NOT NULL, token bigint NOT NULL);
INSERT INTO reports VALUES (1, '', 0);
