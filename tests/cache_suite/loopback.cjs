// Loaded before the suite's server, which listens on all addresses: makes it listen on 127.0.0.1 only.
'use strict'

const net = require('node:net')

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port, ...rest) {
  return typeof port === 'object' ? listen.call(this, port, ...rest) : listen.call(this, Number(port), '127.0.0.1', ...rest)
}
