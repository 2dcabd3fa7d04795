// Command generate makes the Go code of the protobuf files without protoc: a compiler that is a Go
// module, and the usual plugins.
//
//	go run ./generate PROTO_FOLDER OUTPUT_FOLDER
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// The first two parts of the parameters: where files go, and where Go keeps google.rpc.Status.
const parameters = "module=github.com/lockkeeper/lockkeeper/clients/go" +
	",Mgoogle/rpc/status.proto=google.golang.org/genproto/googleapis/rpc/status"

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: generate PROTO_FOLDER OUTPUT_FOLDER")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(protos, output string) error {
	request, err := compile(protos)
	if err != nil {
		return err
	}
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(plugin, input, output); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// compile describes all files of the package to a plugin.
func compile(protos string) (*pluginpb.CodeGeneratorRequest, error) {
	paths, err := filepath.Glob(filepath.Join(protos, "lockkeeper/v1/*.proto"))
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String(parameters)}
	for _, path := range paths {
		name, err := filepath.Rel(protos, path)
		if err != nil {
			return nil, err
		}
		request.FileToGenerate = append(request.FileToGenerate, filepath.ToSlash(name))
	}
	sources := &protocompile.SourceResolver{ImportPaths: []string{protos}}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(sources),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), request.FileToGenerate...)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, file := range files {
		addWithImports(request, seen, file)
	}
	return request, nil
}

// addWithImports adds what a file imports, then the file: a plugin needs them in this order.
func addWithImports(
	request *pluginpb.CodeGeneratorRequest, seen map[string]bool, file protoreflect.FileDescriptor,
) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		addWithImports(request, seen, file.Imports().Get(i).FileDescriptor)
	}
	request.ProtoFile = append(request.ProtoFile, descriptor(file))
}

// descriptor keeps the comments of files that were compiled here.
func descriptor(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	type compiled interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}
	if result, ok := file.(compiled); ok {
		return result.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(file)
}

func generate(plugin string, input []byte, output string) error {
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	answer, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, file := range response.File {
		path := filepath.Join(output, file.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
