// Package libraries shows a client library that goes well with the SDK and does not know it, and the lines that switch off the
// retries of libraries which have their own. The page docs/libraries.md quotes it; its tests count attempts.
package libraries
