// SPDX-License-Identifier: MIT
#pragma once
#include_next <stdio.h>
#include <sys/types.h>
#define BUFSIZ 1024
typedef struct file FILE;
extern FILE *const stdout, *const stderr;
FILE *fopen(const char *path, const char *how);
FILE *tmpfile(void);
int fclose(FILE *file);
int fileno(FILE *file);
char *fgets(char *line, int size, FILE *file);
ssize_t getline(char **line, size_t *size, FILE *file);
int fscanf(FILE *file, const char *format, ...);
int sscanf(const char *text, const char *format, ...);
int vsscanf(const char *text, const char *format, va_list args);
int fprintf(FILE *file, const char *format, ...);
void perror(const char *what);
