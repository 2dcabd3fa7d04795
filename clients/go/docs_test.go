package lockkeeper_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryPublicItemIsDocumented(t *testing.T) {
	names, err := filepath.Glob("*.go")
	check(t, err)
	var files []*ast.File
	set := token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		check(t, err)
		files = append(files, file)
	}
	it, err := doc.NewFromFiles(set, files, "lockkeeper")
	check(t, err)
	hasDoc := func(name, text string) {
		if strings.TrimSpace(text) == "" {
			t.Errorf("%s has no documentation", name)
		}
	}
	functions := func(of string, all []*doc.Func) {
		for _, function := range all {
			hasDoc(of+function.Name, function.Doc)
		}
	}
	values := func(all []*doc.Value) {
		for _, group := range all {
			for _, spec := range group.Decl.Specs {
				value := spec.(*ast.ValueSpec)
				hasDoc(value.Names[0].Name, group.Doc+value.Doc.Text())
			}
		}
	}
	hasDoc("the package", it.Doc)
	functions("", it.Funcs)
	values(append(it.Consts, it.Vars...))
	for _, kind := range it.Types {
		hasDoc(kind.Name, kind.Doc)
		functions("", kind.Funcs)
		values(append(kind.Consts, kind.Vars...))
		for _, method := range kind.Methods {
			// What these do is known.
			if method.Name != "Error" && method.Name != "Is" {
				functions(kind.Name+".", []*doc.Func{method})
			}
		}
	}
	if len(it.Types) < 10 {
		t.Fatalf("only %d types were found", len(it.Types))
	}
}
