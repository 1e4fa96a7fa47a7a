// Package loopback serves HTTP handlers on the loopback interface, each with a client of its own, so that every service
// of the demo is a real server behind a real socket.
package loopback
