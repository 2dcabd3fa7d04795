// Command generate makes the stubs of ../../proto without protoc: a compiler in Go, and the usual plugins.
package main

import (
	"bytes"
	"context"
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

const (
	protos = "../../proto"
	stubs  = "example.com/hold-a-lock/lockkeeper/v1;lockkeeperv1"
)

func main() {
	paths, err := filepath.Glob(protos + "/lockkeeper/v1/*.proto")
	check(err)
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String("module=example.com/hold-a-lock")}
	for _, path := range paths {
		name, err := filepath.Rel(protos, path)
		check(err)
		request.FileToGenerate = append(request.FileToGenerate, name)
		*request.Parameter += ",M" + name + "=" + stubs
	}
	*request.Parameter += ",Mgoogle/rpc/status.proto=google.golang.org/genproto/googleapis/rpc/status"

	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{protos}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), request.FileToGenerate...)
	check(err)
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, descriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	for _, plugin := range []string{"google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"} {
		generate(plugin, request)
	}
}

func descriptor(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if result, ok := file.(interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}); ok {
		return result.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(file)
}

func generate(plugin string, request *pluginpb.CodeGeneratorRequest) {
	input, err := proto.Marshal(request)
	check(err)
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	check(err)
	var response pluginpb.CodeGeneratorResponse
	check(proto.Unmarshal(output, &response))
	if response.Error != nil {
		log.Fatal(*response.Error)
	}
	for _, file := range response.File {
		check(os.MkdirAll(filepath.Dir(file.GetName()), 0o755))
		check(os.WriteFile(file.GetName(), []byte(file.GetContent()), 0o644))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
