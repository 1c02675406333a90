"""Key pairs for ssh, made for Secrets. They are never logged, and nobody keeps them but the API server."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

#: Bits of a key; the public exponent is the usual one.
BITS = 2048
_EXPONENT = 65537


def make() -> dict[str, str]:
    """A new RSA key pair as the files of an ssh folder: `id_rsa` (PKCS#1, PEM), `id_rsa.pub` and `authorized_keys`."""
    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return {"id_rsa": private, "id_rsa.pub": f"{public}\n", "authorized_keys": f"{public}\n"}
