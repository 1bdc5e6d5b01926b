// SPDX-License-Identifier: MIT
/* Real sources to compile: libraries of one header each, and a main that uses them and says what came out. */
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>

enum { WIDTH = 96, HEIGHT = 64, CHANNELS = 3 };

static unsigned char packed[1 << 20];
static int length;

static void keep(void *unused, void *data, int size)
{
	(void)unused;
	memcpy(packed + length, data, (size_t)size);
	length += size;
}

int main(void)
{
	static unsigned char pixels[WIDTH * HEIGHT * CHANNELS];
	unsigned char *found;
	unsigned sum = 0;
	int width, height, channels;

	for (int i = 0; i < WIDTH * HEIGHT * CHANNELS; i++)
		pixels[i] = (unsigned char)(i * i >> 5);
	stbi_write_png_to_func(keep, NULL, WIDTH, HEIGHT, CHANNELS, pixels, WIDTH * CHANNELS);
	found = stbi_load_from_memory(packed, length, &width, &height, &channels, CHANNELS);
	if (!found || width != WIDTH || height != HEIGHT || memcmp(found, pixels, sizeof(pixels)))
		return 1;
	for (int i = 0; i < length; i++)
		sum = sum * 31 + packed[i];
	printf("answer: %08x\n", sum);
	return 0;
}
