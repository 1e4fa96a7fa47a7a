// Package live shows how to mount the live page of an SDK and the switch of its retries, on a port of their own. Its test
// opens both in Chromium during a storm.
package live
