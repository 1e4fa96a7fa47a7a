// Package watch tells when a file or a folder of files may have changed.
//
//	w := watch.New(path, func() { load(path) })
//	load(path)
//	defer w.Close()
//
// What it does:
//
//  1. It watches folders, never files: an editor puts a new file in the old one's place, and a watch of the old one would see
//     nothing more. The folders are the one that holds the path, and those that hold each symbolic link on the way and what
//     it points to: Kubernetes changes a ConfigMap by renaming a link (..data) beside the file.
//  2. Of what does not exist yet, or no longer, it watches the nearest folder above that exists.
//  3. A folder counts with its *.yaml and *.yml files and those of its folders profiles, dependencies and services, also when
//     they come later.
//  4. Several changes within 100 ms are told as one, so that a file is rarely read while it is being written; a writer that does
//     not pause is told of after 500 ms all the same.
//  5. Beside the notifications of the operating system, it looks every few seconds, because these can be lost. Until the first one
//     has come, and where they do not come at all (limits of inotify, network file systems), it looks every 500 ms.
//
// It says "may have": the content can be the same, and can be half-written. Whoever is told reads, compares and judges.
package watch
