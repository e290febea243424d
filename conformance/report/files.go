package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteAll writes the report into dir in every form: report.json, junit.xml, report.md and report.html.
func (r *Report) WriteAll(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	forms := []struct {
		name  string
		write func(io.Writer) error
	}{{"report.json", r.WriteJSON}, {"junit.xml", r.WriteJUnit}, {"report.md", r.WriteMarkdown},
		{"report.html", r.WriteHTML}}
	var errs []error
	for _, form := range forms {
		errs = append(errs, WriteFile(filepath.Join(dir, form.name), form.write))
	}
	return errors.Join(errs...)
}

// WriteFile makes a file with what write writes.
func WriteFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
