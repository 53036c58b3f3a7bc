#!/bin/sh
# Starts the object store over its volume, with the keys that with-secret.sh has made, and its one bucket.
set -eu
key() {
    sed -n "s/^$1 = //p" "$AWS_SHARED_CREDENTIALS_FILE"
}
mkdir -p /var/lib/object-store/bindery
ROOT_ACCESS_KEY="$(key aws_access_key_id)"
ROOT_SECRET_KEY="$(key aws_secret_access_key)"
export ROOT_ACCESS_KEY ROOT_SECRET_KEY
exec versitygw --port 0.0.0.0:7070 --region us-east-1 --keep-alive --health /health --quiet posix /var/lib/object-store
