# Makes grandstand@.service of grandstand.service: a service for each further configuration, without the sockets.
1s|.*|# A further grandstand beside the first: grandstand@NAME has the configuration /etc/grandstand/NAME.toml, the data directory|
2s|.*|# /var/lib/grandstand-NAME, and ports of its own (listen, admin.listen). tests/packages/instance.sed makes it.|
3,4d
/^# These sockets stay open/d
/^Sockets=/d
/^Also=/d
s|/etc/grandstand/grandstand\.toml|/etc/grandstand/%i.toml|
s|/etc/default/grandstand|/etc/default/grandstand-%i|
5,$s|^StateDirectory=grandstand|StateDirectory=grandstand-%i|
5,$s|/var/lib/grandstand|/var/lib/grandstand-%i|
s|^\(Description=.*\)|\1 (%i)|
