// Package durable writes files that a crash, of the program or of the machine, leaves whole.
package durable

import (
	"errors"
	"io/fs"
	"os"
)

// Suffix ends the names of files that are being written. One that a crash left may be removed.
const Suffix = ".tmp"

// ReplaceFile gives a file new contents: after a crash it has the old ones or the new ones, and no others. One writer
// at a time may replace a file.
func ReplaceFile(path string, contents []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path+Suffix, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(contents)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+Suffix, path)
}
